//! Beside a kube-proxy, which serves all but addresses inside the cluster by the node's stack: what is for it
//! is left as it is, and the stack sees every packet, of both directions.

use std::net::IpAddr;

use volvox_bpf_progs::layouts::*;
use volvox_bpf_progs::object::TO_OVERLAY;
use volvox_bpf_progs::{Features, Parts};

use crate::common::outside::{World, ends_of, open_service, route_outside};
use crate::common::*;

const PORT: u16 = 30_080;
/// The marks by which kube-proxy masquerades and drops.
const KUBE_MARKS: u32 = 0xc000;

fn beside() -> Features {
    Features {
        parts: Parts::ALL.without(Parts::NODE_PORT).without(Parts::PAST_STACK),
        ..Features::default()
    }
}

/// An endpoint that may all, and a service at an address inside the cluster and at a port of the node, as
/// another life left it.
fn world() -> World {
    let mut world = World::with(beside());
    route_outside();
    let a = world.a;
    world.node.rules(&a, &[Direction::Ingress, Direction::Egress].map(everything));
    for (near, own, _) in world.families() {
        let id = if own.is_ipv4() { 7 } else { 1007 };
        world.node.backend(id, (near, 8080).into(), 0, BackendState::Active);
        for protocol in [TCP, UDP] {
            world.node.service((own, PORT).into(), protocol, open_service(SERVICE), &[id]);
            let inside = random_service(SERVICE + 1);
            world.node.service((cluster(own), 80).into(), protocol, inside, &[id]);
        }
    }
    world
}

fn cluster(like: IpAddr) -> IpAddr {
    if like.is_ipv4() { "10.96.0.9" } else { "fd96::9" }.parse().unwrap()
}

fn elsewhere(like: IpAddr) -> IpAddr {
    if like.is_ipv4() { "10.2.0.7" } else { "f00d:2::7" }.parse().unwrap()
}

fn identity_mark(identity: u32) -> u32 {
    identity << 16 | 0x0f00
}

#[test]
fn what_comes_for_a_port_of_the_node_or_a_service_is_left_as_it_is() {
    let mut world = world();
    let up = world.up;
    for (_, own, far) in world.families() {
        for sent in [
            tcp(far, own, 5000, PORT, SYN),
            tcp(far, own, 5000, PORT, ACK),
            udp(far, own, 5000, PORT),
            tcp(far, cluster(own), 5000, 80, SYN),
            udp(far, cluster(own), 5000, 81),
            // A backend elsewhere answers whom kube-proxy lent the node's address: no socket waits for it.
            tcp(elsewhere(own), own, 8080, 50_000, SYN | ACK),
            udp(elsewhere(own), own, 53, 50_000),
        ] {
            let sent = sealed(sent);
            let got = world.node.receive(&up, &sent);
            assert_eq!((got.action, got.frame, got.mark), (OK, sent, 0), "{far}");
        }
        let connection = Connection { opener: (far, 5000), other: (own, PORT), protocol: TCP };
        for way in [TupleFlags::OUT, TupleFlags::IN, TupleFlags::SERVICE] {
            assert!(world.node.tracked(connection, way).is_none(), "{far}");
        }
    }
    assert_eq!(world.node.drops(), [].into());
}

#[test]
fn the_node_answers_as_its_stack_says_whatever_an_earlier_life_tracked() {
    let mut world = world();
    let (up, a) = (world.up, world.a);
    for (near, own, far) in world.families() {
        // Of a client outside, to whom the endpoint's packets were the service's.
        let key = Connection { opener: (far, 5001), other: (near, 8080), protocol: TCP };
        let row = CtRow {
            lifetime: u32::MAX,
            rev_nat_index: Be16::new(SERVICE),
            flags: CtFlags::NODE_PORT | CtFlags::SEEN_NON_SYN,
            ..CtRow::default()
        };
        world.node.track(key, TupleFlags::IN, row);
        let answer = sealed(tcp(near, far, 8080, 5001, ACK));
        let got = world.node.send(&a, &answer);
        assert_eq!((got.action, &got.frame), (OK, &answer), "the stack translates it back");
        assert_eq!(got.mark & 0x0f00, 0x0300, "and it keeps the source that it then has");
        let translated = sealed(tcp(own, far, PORT, 5001, ACK));
        let out = world.node.emit(&up, got.mark, &translated);
        assert_eq!((out.action, out.frame), (OK, translated));
    }
    assert_eq!(world.node.drops(), [].into());
}

#[test]
fn an_endpoint_reaches_services_inside_and_leaves_all_else_to_the_stack() {
    let mut world = world();
    let a = world.a;
    let b = world.node.endpoint(2);
    world.node.rules(&b, &[Direction::Ingress, Direction::Egress].map(everything));
    for (near, own, far) in world.families() {
        let asked = sealed(udp(b.ip(own), cluster(own), 4000, 80));
        let got = world.node.send(&b, &asked);
        let heard = sealed(udp(b.ip(own), near, 4000, 8080));
        assert_eq!((got.action, &got.frame), (OK, &heard), "translated, and given to the stack");
        assert_eq!(got.mark, identity_mark(b.identity));
        assert_eq!(world.node.deliver(&a, got.mark, &heard).action, OK);
        // The answer comes by the stack, and is the service's where it arrives.
        let answer = sealed(udp(near, b.ip(own), 8080, 4000));
        let back = world.node.send(&a, &answer);
        assert_eq!((back.action, &back.frame), (OK, &answer));
        let got = world.node.deliver(&b, back.mark, &answer);
        let served = sealed(udp(cluster(own), b.ip(own), 80, 4000));
        assert_eq!((got.action, got.frame), (OK, served));
        for other in [b.ip(own), elsewhere(own), far] {
            let sent = sealed(tcp(near, other, 4001, 9090, SYN));
            let got = world.node.send(&a, &sent);
            assert_eq!((got.action, got.frame), (OK, sent), "{other}");
            assert_eq!(got.mark, identity_mark(a.identity));
        }
    }
    assert_eq!(world.node.drops(), [].into());
}

#[test]
fn what_comes_for_an_endpoint_goes_by_the_stack_with_its_senders_identity() {
    let mut world = world();
    let (up, a) = (world.up, world.a);
    for (near, own, _) in world.families() {
        let there = elsewhere(own);
        world.node.ipcache(there, if own.is_ipv4() { 32 } else { 128 }, 7007);
        let sent = sealed(tcp(there, near, 4000, 8080, SYN));
        let got = world.node.receive(&up, &sent);
        assert_eq!((got.action, &got.frame, got.mark), (OK, &sent, identity_mark(7007)));
        assert_eq!(world.node.deliver(&a, got.mark, &sent).action, OK);
        world.node.rules(&a, &[]);
        let other = sealed(tcp(there, near, 4001, 8080, SYN));
        assert_eq!(world.node.receive(&up, &other).action, OK, "its policy is asked there");
        let mark = identity_mark(7007) | KUBE_MARKS;
        assert_eq!(world.node.drop_of(|node| node.deliver(&a, mark, &other)), Some(133));
        world.node.rules(&a, &[Direction::Ingress, Direction::Egress].map(everything));
        // Nobody takes an address of this node.
        let forged = sealed(tcp(a.ip(own), near, 4002, 8080, SYN));
        assert_eq!(world.node.drop_of(|node| node.receive(&up, &forged)), Some(132));
    }
}

#[test]
fn what_an_endpoint_sends_to_the_world_is_masqueraded_as_ever() {
    let mut world = world();
    let (up, a) = (world.up, world.a);
    for (near, own, far) in world.families() {
        let sent = sealed(udp(near, far, 40_000, 53));
        let stacked = world.node.send(&a, &sent);
        let out = world.node.emit(&up, stacked.mark | KUBE_MARKS, &stacked.frame);
        assert_eq!((out.action, out.frame), (OK, sealed(udp(own, far, 40_000, 53))));
        let answer = sealed(udp(far, own, 53, 40_000));
        let got = world.node.receive(&up, &answer);
        let back = sealed(udp(far, near, 53, 40_000));
        assert_eq!((got.action, &got.frame), (OK, &back), "by the stack");
        assert_eq!(world.node.deliver(&a, got.mark, &back).action, OK);
        // What kube-proxy gave the same port of the node gets another one.
        let lent = sealed(udp(own, far, 40_000, 53));
        let out = world.node.emit(&up, 0, &lent);
        assert_eq!(out.action, OK);
        assert_ne!(out.frame, lent, "its answers would be the endpoint's");
    }
    assert_eq!(world.node.drops(), [].into());
}

#[test]
fn through_the_overlay_goes_the_routers_address_where_kube_proxy_lends_another() {
    let mut world = world();
    let overlay = world.up.ifindex;
    let router: [IpAddr; 2] = [GATEWAY.0.into(), GATEWAY.1.into()];
    world.node.node(NodeRow {
        router_ipv4: GATEWAY.0.octets(),
        router_ipv6: GATEWAY.1.octets(),
        tunnel_ifindex: overlay,
        ..NodeRow::default()
    });
    for ((_, own, _), router) in world.families().into_iter().zip(router) {
        world.node.host_address(own);
        let there = elsewhere(own);
        for (sent, leaves) in [
            (tcp(own, there, 50_000, 8080, SYN), tcp(router, there, 50_000, 8080, SYN)),
            (tcp(own, there, 50_000, 8080, ACK), tcp(router, there, 50_000, 8080, ACK)),
            (udp(own, there, 50_000, 53), udp(router, there, 50_000, 53)),
        ] {
            let got = world.node.run(TO_OVERLAY, overlay, 0, &sealed(sent), 1).0;
            assert_eq!((got.action, got.frame), (OK, sealed(leaves)), "{own}");
        }
        // kube-proxy takes any port, and no socket of the node has it.
        let got = world.node.run(TO_OVERLAY, overlay, 0, &sealed(udp(own, there, 7000, 53)), 1).0;
        assert_eq!((got.action, ends_of(&got.frame).from.0), (OK, router));
        let _server = std::net::UdpSocket::bind((own, 7001)).unwrap();
        let sent = sealed(udp(own, there, 7001, 40_000));
        let got = world.node.run(TO_OVERLAY, overlay, 0, &sent, 1).0;
        assert_eq!((got.action, got.frame), (OK, sent), "a socket of the node answers");
        // What answers somebody keeps the source by which he knows it.
        for sent in [tcp(own, there, PORT, 4001, SYN | ACK), udp(own, there, PORT, 4000)] {
            let sent = sealed(sent);
            let got = world.node.run(TO_OVERLAY, overlay, 0, &sent, 1).0;
            assert_eq!((got.action, got.frame), (OK, sent), "{own}");
        }
    }
    assert_eq!(world.node.drops(), [].into());
}
