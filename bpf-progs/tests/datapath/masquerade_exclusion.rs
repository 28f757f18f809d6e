//! What keeps its source on its way out, and what cannot go out.

use crate::common::outside::World;
use crate::common::*;
use std::net::IpAddr;
use volvox_bpf_progs::layouts::*;

fn host_bits(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

#[test]
fn destinations_of_the_cluster_hear_the_endpoint_itself() {
    let mut world = World::new();
    for (near, own, far) in world.families() {
        for (identity, is_masqueraded) in [
            (256, false),
            (70_000, false),
            (1, false),
            (4, false),
            (6, false),
            (7, false),
            (2, true),
            (9, true),
            (1 << 24 | 1, true),
        ] {
            world.node.ipcache(far, host_bits(far), identity);
            let port = 40_000 + (identity % 256) as u16 + (identity >> 16) as u16;
            let sent = sealed(udp(near, far, port, 53));
            let expected =
                if is_masqueraded { sealed(udp(own, far, port, 53)) } else { sent.clone() };
            assert_eq!(world.sent(&sent), expected, "to identity {identity}");
        }
    }
}

#[test]
fn nodes_that_are_reached_beside_the_overlay_hear_the_node() {
    let mut world = World::new();
    for (near, own, far) in world.families() {
        for (identity, tunnel_ifindex, is_masqueraded) in
            [(6, 0, false), (6, 9, true), (7, 9, true), (256, 9, false)]
        {
            world.node.node(NodeRow { tunnel_ifindex, ..NodeRow::default() });
            world.node.ipcache(far, host_bits(far), identity);
            let sent = sealed(udp(near, far, 41_000 + identity as u16, 53));
            let there = sealed(udp(own, far, 41_000 + identity as u16, 53));
            let expected = if is_masqueraded { there } else { sent.clone() };
            assert_eq!(world.sent(&sent), expected, "to identity {identity}");
        }
        world.node.node(NodeRow::default());
    }
}

#[test]
fn excluded_prefixes_hear_the_endpoint_itself() {
    let mut world = World::new();
    for (near, own, far) in world.families() {
        let sent = sealed(udp(near, far, 40_000, 53));
        world.node.exclude(far, if far.is_ipv4() { 24 } else { 64 });
        assert_eq!(world.sent(&sent), sent);
        let other = if far.is_ipv4() { "203.0.113.9" } else { "2001:db8:9::9" }.parse().unwrap();
        let got = world.sent(&sealed(udp(near, other, 40_000, 53)));
        assert_eq!(got, sealed(udp(own, other, 40_000, 53)));
    }
}

#[test]
fn an_endpoint_that_is_not_masqueraded_is_heard_with_its_own_address() {
    let mut world = World::new();
    for (near, own, far) in world.families() {
        let (flag, of_other_family) = match near {
            IpAddr::V4(_) => (LxcFlags::SKIP_MASQUERADE_V4, LxcFlags::SKIP_MASQUERADE_V6),
            IpAddr::V6(_) => (LxcFlags::SKIP_MASQUERADE_V6, LxcFlags::SKIP_MASQUERADE_V4),
        };
        let row = |world: &mut World, flags| {
            let row = LxcRow { flags, ..world.a.lxc() };
            world.node.put("cilium_lxc", LxcKey::new(near), row);
        };
        let sent = sealed(udp(near, far, 40_000, 53));
        // An error about what nobody asked for shows the address, so it leaves only where that is known.
        let error = sealed(unreachable(near, far, &sealed(udp(far, near, 9, 9))));
        row(&mut world, of_other_family);
        assert_eq!(world.sent(&sent), sealed(udp(own, far, 40_000, 53)));
        let (up, mark) = (world.up, world.a.identity << 16 | 0x0f00);
        assert_eq!(world.node.drop_of(|node| node.emit(&up, mark, &error)), Some(168));
        row(&mut world, flag);
        let sent = sealed(udp(near, far, 40_001, 53));
        assert_eq!(world.sent(&sent), sent);
        let got = world.node.emit(&up, mark, &error);
        assert_eq!((got.action, got.frame), (OK, error));
    }
}

#[test]
fn a_flow_keeps_its_address_when_its_end_is_excluded_later() {
    let mut world = World::new();
    for (near, own, far) in world.families() {
        let sent = |flags| sealed(tcp(near, far, 40_000, 443, flags));
        let there = |flags| sealed(tcp(own, far, 40_000, 443, flags));
        assert_eq!(world.sent(&sent(SYN)), there(SYN));
        world.node.exclude(far, host_bits(far));
        world.next_second();
        assert_eq!(world.sent(&sent(ACK)), there(ACK));
        assert_eq!(world.sent(&sent(SYN)), sent(SYN), "the next connection goes by the new rule");
    }
}

#[test]
fn an_answer_to_one_who_asked_the_endpoint_itself_keeps_its_source() {
    let mut world = World::new();
    let key = PolicyKey::any(Direction::Ingress, 0);
    let out = PolicyKey::any(Direction::Egress, 0);
    let allow = |key| (key, PolicyRow::allow(&key, 1));
    world.node.rules(&world.a.clone(), &[allow(key), allow(out)]);
    for (near, _, far) in world.families() {
        let asked = sealed(tcp(far, near, 5000, 80, SYN));
        assert_eq!(world.got(&asked), delivered(asked, &world.a));
        let answer = sealed(tcp(near, far, 80, 5000, SYN | ACK));
        let stacked = world.node.send(&world.a, &answer);
        assert_eq!((stacked.action, stacked.mark), (OK, world.a.identity << 16 | SNAT_DONE));
        let got = world.node.emit(&world.up, stacked.mark, &stacked.frame);
        assert_eq!((got.action, got.frame), (OK, answer));
    }
    assert_eq!(world.node.translations(), []);
}

#[test]
fn without_the_flag_the_address_or_the_row_nothing_is_changed() {
    let mut world = World::new();
    let up = world.up;
    let nobody = DeviceRow { ipv4: [0; 4], ipv6: [0; 16], ..up.row(MASQUERADE) };
    for row in [up.row(0), nobody] {
        world.node.device(row);
        for (near, _, far) in world.families() {
            let sent = sealed(udp(near, far, 1000, 53));
            assert_eq!(world.sent(&sent), sent);
        }
    }
    world.node.remove::<u32, DeviceRow>("volvox_device", up.ifindex);
    for (near, own, far) in world.families() {
        let sent = sealed(udp(near, far, 1000, 53));
        assert_eq!(world.sent(&sent), sent);
        let back = sealed(udp(far, own, 53, 40_000));
        let got = world.node.receive(&up, &back);
        assert_eq!((got.action, got.frame), (OK, back));
    }
}

#[test]
fn what_has_no_port_to_change_cannot_go_out() {
    let mut world = World::new();
    for (near, own, far) in world.families() {
        let (up, mark) = (world.up, world.a.identity << 16 | 0x0f00);
        let mut drop = |frame: Vec<u8>| world.node.drop_of(|node| node.emit(&up, mark, &frame));
        let (protocol, kind) = if near.is_ipv4() { (ICMP, 13) } else { (ICMPV6, 200) };
        assert_eq!(drop(ip(near, far, protocol, &icmp_header(kind, 0, 7))), Some(168));
        assert_eq!(drop(ip(near, far, SCTP, &sctp_header(1000, 80, SCTP_INIT))), Some(168));
        let retained =
            world.node.emit(&up, mark, &ip(near, far, SCTP, &sctp_header(40_000, 80, SCTP_INIT)));
        assert_eq!((retained.action, ends_of(&retained.frame).from), (OK, (own, 40_000)));
        let unknown = ip(near, far, 47, &[0; 8]);
        let got = world.node.emit(&up, mark, &unknown);
        assert_eq!((got.action, got.frame), (OK, unknown), "from_container lets none of it by");
    }
}

#[test]
fn what_is_for_many_or_for_neighbours_passes() {
    let mut world = World::new();
    for (near, far) in [
        (world.a.v4(), "224.0.0.251"),
        (world.a.v4(), "255.255.255.255"),
        (world.a.v6(), "ff02::fb"),
        (world.a.v6(), "fe80::1"),
    ] {
        let sent = sealed(udp(near, far.parse().unwrap(), 5353, 5353));
        let got = world.node.emit(&world.up, 0, &sent);
        assert_eq!((got.action, got.frame), (OK, sent));
    }
}

#[test]
fn an_address_of_this_node_does_not_come_from_the_wire() {
    let mut world = World::new();
    let b = world.node.endpoint(2);
    for (near, own, far) in world.families() {
        let (up, forged) = (world.up, b.ip(far));
        for source in [forged, own] {
            let frame = sealed(udp(source, near, 1000, 53));
            assert_eq!(world.node.drop_of(|node| node.receive(&up, &frame)), Some(132));
        }
        let frame = sealed(udp(far, near, 1000, 53));
        assert_eq!(world.node.drop_of(|node| node.receive(&up, &frame)), Some(133), "policy");
        let mut others = frame.clone();
        others[..6].copy_from_slice(&[2, 0, 0, 0, 0, 99]);
        let got = world.node.receive(&up, &others);
        assert_eq!((got.action, got.frame), (OK, others), "a frame for another machine");
        let mut last = frame;
        last[if far.is_ipv4() { 22 } else { 21 }] = 1;
        let got = world.node.receive(&up, &last);
        assert_eq!((got.action, got.frame), (OK, last), "the stack answers a last hop");
    }
}

#[test]
fn later_fragments_follow_the_first() {
    let mut world = World::new();
    let (near, own, far) = world.families()[0];
    let (IpAddr::V4(near), IpAddr::V4(own), IpAddr::V4(far)) = (near, own, far) else {
        panic!("the first family is IPv4")
    };
    let frame = |src, dst, fragment, payload: &[u8]| {
        ethernet(ANY_MACS, 0x0800, &ipv4(src, dst, UDP, fragment, payload))
    };
    let (first, later) = ([&udp_header(1000, 53)[..], &[7; 8]].concat(), [7; 8]);
    let port = ends_of(&world.sent(&frame(near, far, 0x2000, &first))).from.1;
    let got = world.sent(&frame(near, far, 2, &later));
    assert_eq!(got, frame(own, far, 2, &later));
    world.got(&frame(far, own, 0x2000, &[&udp_header(53, port)[..], &[7; 8]].concat()));
    let got = world.got(&frame(far, own, 2, &later));
    assert_eq!(got, delivered(frame(far, near, 2, &later), &world.a));
}
