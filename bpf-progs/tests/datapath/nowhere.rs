//! Addresses that are no machine's, packets that go on to others than their address says, and sources that cannot come
//! from where they do.

use crate::common::outside::{open_service, route_outside, serving};
use crate::common::*;
use std::net::{IpAddr, Ipv4Addr};
use volvox_bpf_progs::Features;
use volvox_bpf_progs::layouts::*;

fn addresses<const N: usize>(all: [&str; N]) -> [IpAddr; N] {
    all.map(|it| it.parse().unwrap())
}

fn to_everybody(node: &mut Node, endpoint: &Endpoint) {
    node.rules(endpoint, &[everything(Direction::Egress), everything(Direction::Ingress)]);
}

#[test]
fn an_endpoint_reaches_nobodys_address() {
    let mut node = Node::new();
    let a = node.endpoint(1);
    to_everybody(&mut node, &a);
    for to in
        addresses(["127.0.0.1", "127.8.9.1", "0.0.0.0", "0.1.2.3", "::", "::1", "::ffff:10.1.0.2"])
    {
        let frame = udp(a.ip(to), to, 1, 2);
        assert_eq!(node.drop_of(|node| node.send(&a, &frame)), Some(150), "{to}");
    }
}

/// Groups, all, and neighbours on the link: the other end of an endpoint's link is the node.
#[test]
fn what_stays_on_the_link_is_for_the_node() {
    let mut node = Node::new();
    let a = node.endpoint(1);
    let only = |identity| {
        let key = PolicyKey::any(Direction::Egress, identity);
        [(key, PolicyRow::allow(&key, 1))]
    };
    let [world4, world6] = WORLD_IDENTITIES;
    let link = addresses(["224.0.0.251", "255.255.255.255", "ff02::fb", "ff01::1", "fe80::7"]);
    let wide = addresses(["224.0.1.1", "239.1.2.3", "ff05::1", "ff0e::1"]);
    for (to, is_node) in link.map(|to| (to, true)).into_iter().chain(wide.map(|to| (to, false))) {
        let frame = udp(a.ip(to), to, 1, 2);
        for (identity, passes) in [(1, is_node), (world4, !is_node), (world6, !is_node)] {
            if identity != 1 && (identity == world6) != to.is_ipv6() {
                continue;
            }
            node.rules(&a, &only(identity));
            let dropped = node.drop_of(|node| node.send(&a, &frame));
            assert_eq!(dropped.is_none(), passes, "{to} for {identity}");
        }
    }
}

/// A header of IPv4 with options, whole.
fn with_options(src: Ipv4Addr, dst: Ipv4Addr, options: &[u8]) -> Vec<u8> {
    let mut packet = ipv4(src, dst, UDP, 0, &udp_header(1, 2));
    packet[0] = 0x45 + options.len() as u8 / 4;
    let length = packet.len() as u16 + options.len() as u16;
    packet[2..4].copy_from_slice(&length.to_be_bytes());
    packet.splice(20..20, options.iter().copied());
    ethernet(ANY_MACS, 0x0800, &packet)
}

#[test]
fn options_of_ipv4_choose_no_way() {
    let mut node = Node::new();
    let (a, b) = (node.endpoint(1), node.endpoint(2));
    to_everybody(&mut node, &a);
    to_everybody(&mut node, &b);
    let harmless: [&[u8]; 6] = [
        &[1, 1, 1, 1],
        &[0, 131, 7, 4],
        &[148, 4, 0, 0],
        // Option data that looks like a type.
        &[7, 7, 4, 131, 137, 131, 137, 0],
        &[1, 7, 7, 4, 0, 0, 0, 0],
        // Behind one that nobody can read.
        &[7, 0, 131, 7],
    ];
    for options in harmless {
        let frame = with_options(a.ipv4, b.ipv4, options);
        assert_eq!(node.drop_of(|node| node.send(&a, &frame)), None, "{options:?}");
    }
    let routed: [&[u8]; 4] = [
        &[131, 7, 4, 10, 1, 0, 9, 0],
        &[137, 7, 4, 10, 1, 0, 9, 0],
        &[1, 131, 7, 4, 10, 1, 0, 9],
        &[1, 1, 1, 1, 7, 3, 4, 131, 3, 4, 1, 1],
    ];
    for options in routed {
        let frame = with_options(a.ipv4, b.ipv4, options);
        assert_eq!(node.drop_of(|node| node.send(&a, &frame)), Some(134), "{options:?}");
        let frame = with_options(b.ipv4, a.ipv4, options);
        let got = node.drop_of(|node| node.deliver(&a, 0, &frame));
        assert_eq!(got, Some(134), "{options:?} through the stack");
    }
}

/// A later fragment has no layer 4 that would be missed.
#[test]
fn a_header_ends_within_its_packet() {
    let mut node = Node::new();
    let (a, b) = (node.endpoint(1), node.endpoint(2));
    to_everybody(&mut node, &a);
    to_everybody(&mut node, &b);
    let mut frame = ethernet(ANY_MACS, 0x0800, &ipv4(a.ipv4, b.ipv4, UDP, 100, &udp_header(1, 2)));
    assert_eq!(node.drop_of(|node| node.send(&a, &frame)), None);
    frame[14] = 0x4d;
    assert_eq!(node.drop_of(|node| node.send(&a, &frame)), Some(134));
}

#[test]
fn routing_headers_choose_no_way() {
    let mut node = Node::new();
    let (a, b) = (node.endpoint(1), node.endpoint(2));
    to_everybody(&mut node, &a);
    to_everybody(&mut node, &b);
    for kind in [0, 2, 3, 4] {
        for (left, verdict) in [(0, None), (1, Some(156)), (255, Some(156))] {
            let mut payload = vec![UDP, 2, kind, left, 0, 0, 0, 0];
            payload.extend([0; 16]);
            payload.extend(udp_header(1, 2));
            let frame = ethernet(ANY_MACS, 0x86dd, &ipv6(a.ipv6, b.ipv6, 43, 64, &payload));
            assert_eq!(node.drop_of(|node| node.send(&a, &frame)), verdict, "{kind} {left}");
        }
    }
}

/// What is read of a first fragment is what the receiver will have.
#[test]
fn a_fragment_does_not_change_what_was_judged() {
    let mut node = Node::new();
    let (a, b) = (node.endpoint(1), node.endpoint(2));
    to_everybody(&mut node, &a);
    to_everybody(&mut node, &b);
    let head = tcp_header(1000, 80, ACK);
    // Its length says less than there are bytes: flags would come with the next one.
    let mut cut4 = ethernet(ANY_MACS, 0x0800, &ipv4(a.ipv4, b.ipv4, TCP, 0x2000, &head));
    cut4[16..18].copy_from_slice(&28u16.to_be_bytes());
    let in_v6 = |word: u16, payload: &[u8], length: Option<u16>| {
        let mut extended = vec![TCP, 0];
        extended.extend(word.to_be_bytes());
        extended.extend([0, 0, 0, 1]);
        extended.extend(payload);
        let mut frame = ethernet(ANY_MACS, 0x86dd, &ipv6(a.ipv6, b.ipv6, 44, 64, &extended));
        if let Some(length) = length {
            frame[18..20].copy_from_slice(&length.to_be_bytes());
        }
        frame
    };
    let over4 =
        |offset: u16| ethernet(ANY_MACS, 0x0800, &ipv4(a.ipv4, b.ipv4, TCP, offset, &[0; 24]));
    let tiny = [cut4, in_v6(1, &head, Some(16)), over4(1), over4(2), in_v6(1 << 3, &[0; 24], None)];
    for (nth, frame) in tiny.iter().enumerate() {
        assert_eq!(node.drop_of(|node| node.send(&a, frame)), Some(134), "{nth}");
    }
    let whole4 = ethernet(
        ANY_MACS,
        0x0800,
        &ipv4(a.ipv4, b.ipv4, TCP, 0x2000, &[&head[..], &[0; 4]].concat()),
    );
    for frame in [
        whole4,
        over4(3),
        in_v6(1, &[&head[..], &[0; 4]].concat(), None),
        in_v6(3 << 3, &[0; 24], None),
    ] {
        assert_eq!(node.drop_of(|node| node.send(&a, &frame)), None);
    }
}

/// The stack would have refused them; by the programs they do not pass it.
#[test]
fn no_router_lets_these_sources_pass() {
    for port in [30_080, 8080] {
        let mut world = serving(Features::default(), 30_080);
        let (a, up) = (world.a, world.up);
        for from in addresses([
            "127.0.0.1",
            "0.0.0.0",
            "224.0.0.1",
            "255.255.255.255",
            "::1",
            "::",
            "ff02::1",
            "fe80::9",
            "::ffff:10.1.0.9",
        ]) {
            let to = if port == 8080 { a.ip(from) } else { up.ip(from) };
            let dropped = world.node.drop_of(|node| node.receive(&up, &udp(from, to, 5000, port)));
            assert_eq!(dropped, Some(132), "{from} to {to}");
            let mut last = udp(from, to, 5000, port);
            last[if from.is_ipv4() { 22 } else { 21 }] = 1;
            let dropped = world.node.drop_of(|node| node.receive(&up, &last));
            assert_eq!(dropped, Some(132), "{from} to {to}, by its last hop");
        }
    }
}

/// Nobody but a node speaks for those who live behind it, and it does so by the overlay.
#[test]
fn what_lives_behind_the_overlay_does_not_come_beside_it() {
    let (mut node, up) = Node::with_uplink();
    route_outside();
    let a = node.endpoint(1);
    to_everybody(&mut node, &a);
    for (far, flags) in [
        ("10.2.0.7", IpcacheFlags::HAS_TUNNEL_ENDPOINT),
        ("f00d:2::7", IpcacheFlags::HAS_TUNNEL_ENDPOINT),
        ("10.2.0.8", 0),
        ("10.2.0.9", IpcacheFlags::HAS_TUNNEL_ENDPOINT | IpcacheFlags::SKIP_TUNNEL),
    ] {
        let far: IpAddr = far.parse().unwrap();
        node.ipcache_row(far, IpcacheRow { identity: 777, flags, ..IpcacheRow::default() });
        for (tunnel_ifindex, is_behind) in
            [(1, flags == IpcacheFlags::HAS_TUNNEL_ENDPOINT), (0, false)]
        {
            node.node(NodeRow { tunnel_ifindex, ..NodeRow::default() });
            let frame = udp(far, a.ip(far), 5000, 80);
            let dropped = node.drop_of(|node| node.receive(&up, &frame));
            assert_eq!(dropped, is_behind.then_some(132), "{far} {tunnel_ifindex}");
        }
    }
}

/// Only nodes tell of what a client outside has asked: an endpoint would have its packet sent on as it likes.
#[test]
fn no_endpoint_is_answered_as_another() {
    let features = Features { dsr: true, ..Features::default() };
    let (mut node, up) = Node::with_uplink_and(features);
    route_outside();
    let a = node.endpoint(1);
    to_everybody(&mut node, &a);
    let far: IpAddr = "10.2.0.7".parse().unwrap();
    let (IpAddr::V4(src), other) = (far, "192.0.2.77".parse().unwrap()) else { unreachable!() };
    node.ipcache(far, 32, 777);
    node.ipcache(other, 32, 6);
    let plain = udp(far, a.v4(), 1, 2);
    assert_eq!(node.drop_of(|node| node.receive(&up, &plain)), None);
    // The port of a node, as this one serves it too: with a connection of these ends, such a packet would be sent
    // there.
    let served = (up.ip(far), 0x2716).into();
    node.service(served, UDP, open_service(SERVICE), &[]);
    let frame = with_options(src, a.ipv4, &[0x9a, 8, 0x27, 0x16, 192, 0, 2, 77]);
    let got = node.receive(&up, &frame);
    assert_eq!(ends_of(&plain).to.0, a.v4());
    assert_eq!(got.frame[30..34], a.ipv4.octets(), "{:?}", node.drops());
}
