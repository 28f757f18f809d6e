//! What the node's policy is not asked about, and what it is although it is no plain packet.

use crate::common::outside::World;
use crate::common::*;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use volvox_bpf_progs::layouts::*;

const IN: Direction = Direction::Ingress;
const OUT: Direction = Direction::Egress;

/// A node that may neither hear nor send.
fn world() -> World {
    let mut world = World::with(host_firewall());
    world.node.host_rules(&[]);
    world
}

fn hears(world: &mut World, frame: &[u8]) -> Option<u8> {
    let up = world.up;
    world.node.drop_of(|node| node.receive(&up, frame))
}

fn sends(world: &mut World, mark: u32, frame: &[u8]) -> Option<u8> {
    let up = world.up;
    world.node.drop_of(|node| node.emit(&up, mark, frame))
}

fn six(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V6(address) => address,
        IpAddr::V4(address) => panic!("{address} is of another family"),
    }
}

#[test]
fn neighbours_find_each_other() {
    let mut world = world();
    let link = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 9);
    let own = six(world.families()[1].1);
    let peer = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0xfe);
    for kind in 133..=137 {
        let message = [&[kind, 0, 0, 0][..], &[0; 20]].concat();
        for (from, to) in [(peer, own), (link, own), (link, link)] {
            let frame = ethernet(ANY_MACS, 0x86dd, &ipv6(from, to, ICMPV6, 255, &message));
            assert_eq!(hears(&mut world, &frame), None, "{kind}");
        }
        for (from, to) in [(own, peer), (own, link), (link, link)] {
            let frame = ethernet(ANY_MACS, 0x86dd, &ipv6(from, to, ICMPV6, 255, &message));
            assert_eq!(sends(&mut world, 0, &frame), None, "{kind}");
        }
    }
    let question = ethernet(ANY_MACS, 0x0806, &arp(1, (ANY_MACS.0, UPLINK.0), ([0; 6], UPLINK.0)));
    assert_eq!(hears(&mut world, &question), None);
    assert_eq!(sends(&mut world, 0, &question), None);
}

#[test]
fn what_is_for_many_passes() {
    let mut world = world();
    for ((_, own, far), many) in world.families().into_iter().zip(["224.0.0.18", "ff02::5"]) {
        let frame = sealed(udp(far, many.parse().unwrap(), 5000, 5000));
        assert_eq!(hears(&mut world, &frame), None);
        let frame = sealed(udp(own, many.parse().unwrap(), 5000, 5000));
        assert_eq!(sends(&mut world, 0, &frame), None);
    }
    let all = Ipv4Addr::BROADCAST.into();
    let asking = sealed(udp(Ipv4Addr::UNSPECIFIED.into(), all, 68, 67));
    assert_eq!(sends(&mut world, 0, &asking), None);
    assert_eq!(hears(&mut world, &asking), None);
}

#[test]
fn outer_packets_of_the_overlay_pass_and_nothing_else_at_their_port() {
    let mut world = world();
    for (_, own, far) in world.families() {
        let (into, out) = (sealed(udp(far, own, 5000, 8472)), sealed(udp(own, far, 5000, 8472)));
        for (tunnel_ifindex, port, expected) in
            [(0, 8472, Some(133)), (7, 0, Some(133)), (7, 8473, Some(133)), (7, 8472, None)]
        {
            let tunnel_port = Be16::new(port);
            world.node.node(NodeRow { tunnel_ifindex, tunnel_port, ..NodeRow::default() });
            assert_eq!(hears(&mut world, &into), expected);
            assert_eq!(sends(&mut world, 0, &out), expected);
        }
        let other = sealed(tcp(far, own, 5000, 8472, SYN));
        assert_eq!(hears(&mut world, &other), Some(133));
        assert_eq!(sends(&mut world, 0x0400, &sealed(udp(own, far, 5000, 1))), None, "by its mark");
    }
}

#[test]
fn what_is_not_the_nodes_passes() {
    let mut world = world();
    for (near, own, far) in world.families() {
        let pods = world.sent(&sealed(udp(near, far, 5000, 53)));
        assert_eq!(ends_of(&pods).from.0, own, "masqueraded by the programs");
        world.got(&sealed(udp(far, own, 53, ends_of(&pods).from.1)));
        let mark = world.a.identity << 16 | 0x0f00;
        let by_stack = sealed(udp(own, far, 5000, 53));
        assert_eq!(sends(&mut world, mark, &by_stack), None, "masqueraded by the stack");
        assert_eq!(sends(&mut world, SNAT_DONE, &by_stack), None);
        let other: IpAddr =
            if far.is_ipv4() { "203.0.113.9" } else { "2001:db8:9::9" }.parse().unwrap();
        let routed = sealed(udp(far, other, 5000, 53));
        assert_eq!(hears(&mut world, &routed), None);
        assert_eq!(sends(&mut world, 0, &routed), None);
    }
}

#[test]
fn a_protocol_without_ports_passes_by_rules_without_one() {
    let mut world = world();
    for (_, own, far) in world.families() {
        let (into, out) = (ip(far, own, 47, &[0; 8]), ip(own, far, 47, &[0; 8]));
        for direction in [IN, OUT] {
            world.node.host_rules(&[allowed(PolicyKey::ports(direction, 0, 47, 1, 16))]);
            assert_eq!(hears(&mut world, &into), Some(133));
            assert_eq!(sends(&mut world, 0, &out), Some(133));
        }
        world.node.host_rules(&[everything(IN)]);
        assert_eq!(hears(&mut world, &into), None);
        assert_eq!(sends(&mut world, 0, &out), None, "it answers");
        world.node.host_rules(&[]);
        assert_eq!(hears(&mut world, &into), Some(133));
    }
}

#[test]
fn what_cannot_be_read_is_not_heard() {
    let mut world = world();
    for (number, (_, own, far)) in world.families().into_iter().enumerate() {
        world.node.host_rules(&[everything(IN)]);
        // The first fragment of a TCP header, which the stack would put together.
        let short = ip(far, own, TCP, &tcp_header(5000, 22, SYN)[..8]);
        assert_eq!(hears(&mut world, &short), Some(135));
        if number == 1 {
            let mut chain = Vec::new();
            (0..7).for_each(|_| chain.extend([60, 0, 1, 4, 0, 0, 0, 0]));
            let last = chain.len() - 8;
            chain[last] = TCP;
            chain.extend(tcp_header(5000, 22, SYN));
            assert_eq!(hears(&mut world, &ip(far, own, 60, &chain)), Some(156));
        }
    }
    let mut without = World::with(host_firewall());
    for (_, own, far) in without.families() {
        let short = ip(far, own, TCP, &tcp_header(5000, 22, SYN)[..8]);
        assert_eq!(hears(&mut without, &short), None, "without a policy it is the stack's");
    }
}

#[test]
fn a_later_fragment_passes_by_rules_without_a_port() {
    let mut world = world();
    let IpAddr::V4(far) = world.families()[0].2 else { panic!("IPv4 comes first") };
    let later = ethernet(ANY_MACS, 0x0800, &ipv4(far, UPLINK.0, UDP, 100, &[0; 16]));
    world.node.host_rules(&[allowed(PolicyKey::ports(IN, 0, UDP, 53, 16))]);
    assert_eq!(hears(&mut world, &later), Some(157));
    world.node.host_rules(&[allowed(PolicyKey::protocol(IN, 0, UDP))]);
    assert_eq!(hears(&mut world, &later), None);
}

#[test]
fn an_address_of_the_link_and_a_frame_for_all_are_no_way_around() {
    let mut world = world();
    let link = IpAddr::from(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 2));
    let peer = IpAddr::from(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 9));
    assert_eq!(hears(&mut world, &sealed(tcp(peer, link, 5000, 22, SYN))), Some(133));
    assert_eq!(sends(&mut world, 0, &sealed(tcp(link, peer, 5000, 22, SYN))), Some(133));
    for (near, own, far) in world.families() {
        let for_all = |to| {
            let mut frame = sealed(udp(far, to, 5000, 161));
            frame[..6].fill(0xff);
            frame
        };
        assert_eq!(hears(&mut world, &for_all(own)), Some(133));
        assert_eq!(hears(&mut world, &for_all(near)), None, "the stack forwards none");
        let mut others = sealed(udp(far, own, 5000, 161));
        others[..6].copy_from_slice(&[2, 0, 0, 0, 9, 9]);
        assert_eq!(hears(&mut world, &others), None, "the stack takes none of another machine");
    }
}
