//! A backend that left its service keeps the connections that it has: the agent leaves its row there in
//! a state that takes no new ones, and datagrams find no row.

use crate::common::outside::{World, open_service, route_outside};
use crate::common::*;
use std::net::{IpAddr, SocketAddr};
use volvox_bpf_progs::Features;
use volvox_bpf_progs::layouts::*;

const PORT: u16 = 30_080;
/// The service of datagrams; [`SERVICE`] is that of streams.
const DATAGRAMS: u16 = SERVICE + 1;
const IDENTITY: u32 = 777;
const OTHER_NODE: [u8; 4] = [192, 0, 2, 254];

fn number(id: u32, like: IpAddr) -> u32 {
    id + if like.is_ipv4() { 0 } else { 1000 }
}

fn service_of(protocol: u8) -> u16 {
    if protocol == UDP { DATAGRAMS } else { SERVICE }
}

/// The services of an address have these backends and no others; who leaves is as the agent writes it.
fn serve(node: &mut Node, at: SocketAddr, row: fn(u16) -> LbRow, now: &[u32], left: &[u32]) {
    for protocol in [TCP, UDP] {
        let id = service_of(protocol);
        let numbers: Vec<_> = now.iter().map(|id| number(*id, at.ip())).collect();
        node.service(at, protocol, row(id), &numbers);
        for left in left.iter().map(|id| number(*id, at.ip())) {
            match protocol {
                TCP => node.member(id, left, BackendState::Terminating, at.ip()),
                _ => node.no_member(id, left, at.ip()),
            }
        }
    }
}

/// A client inside, and a service of its cluster with two backends elsewhere in each family.
fn inside() -> (Node, Endpoint) {
    let mut node = Node::new();
    let a = node.endpoint(1);
    let key = PolicyKey::any(Direction::Egress, 0);
    node.rules(&a, &[(key, PolicyRow::allow(&key, 0))]);
    for like in [a.v4(), a.v6()] {
        for id in [1, 2] {
            node.backend(number(id, like), (far(like, id), 8080).into(), 0, BackendState::Active);
        }
    }
    (node, a)
}

/// Where a backend is that no node has.
fn far(like: IpAddr, id: u32) -> IpAddr {
    let prefix = if like.is_ipv4() { "192.0.2." } else { "2001:db8::" };
    format!("{prefix}{id}").parse().unwrap()
}

#[test]
fn a_client_inside_keeps_the_backend_that_left() {
    let (mut node, a) = inside();
    for client in [a.v4(), a.v6()] {
        let at = SocketAddr::from((service_address(client), 80));
        let reached = |node: &mut Node, frame: Vec<u8>| {
            let got = node.send(&a, &sealed(frame));
            assert_eq!(got.action, OK, "{:?}", node.drops());
            ends_of(&got.frame).to.0
        };
        serve(&mut node, at, random_service, &[1], &[]);
        for port in 1..9 {
            assert_eq!(reached(&mut node, tcp(client, at.ip(), port, 80, SYN)), far(client, 1));
            assert_eq!(reached(&mut node, tcp(client, at.ip(), port, 80, ACK)), far(client, 1));
            assert_eq!(reached(&mut node, udp(client, at.ip(), port, 80)), far(client, 1));
        }
        serve(&mut node, at, random_service, &[2], &[1]);
        for port in 1..9 {
            for _ in 0..2 {
                assert_eq!(reached(&mut node, tcp(client, at.ip(), port, 80, ACK)), far(client, 1));
            }
            assert_eq!(reached(&mut node, udp(client, at.ip(), port, 80)), far(client, 2), "moves");
        }
        // It hears who ends, and nobody who begins, also where the same ends are tried again.
        assert_eq!(reached(&mut node, tcp(client, at.ip(), 1, 80, FIN | ACK)), far(client, 1));
        for port in 2..100 {
            assert_eq!(reached(&mut node, tcp(client, at.ip(), port, 80, SYN)), far(client, 2));
            assert_eq!(reached(&mut node, tcp(client, at.ip(), port, 80, ACK)), far(client, 2));
        }
    }
    assert_eq!(node.drops(), [].into());
}

#[test]
fn where_nobody_is_left_who_is_connected_goes_on() {
    let (mut node, a) = inside();
    for client in [a.v4(), a.v6()] {
        let at = SocketAddr::from((service_address(client), 80));
        serve(&mut node, at, random_service, &[1], &[]);
        for flags in [SYN, ACK] {
            assert_eq!(node.send(&a, &sealed(tcp(client, at.ip(), 1, 80, flags))).action, OK);
        }
        serve(&mut node, at, random_service, &[], &[1]);
        for _ in 0..3 {
            let got = node.send(&a, &sealed(tcp(client, at.ip(), 1, 80, ACK)));
            assert_eq!((got.action, ends_of(&got.frame).to.0), (OK, far(client, 1)));
        }
        let begins = sealed(tcp(client, at.ip(), 2, 80, SYN));
        assert_eq!(node.drop_of(|node| node.send(&a, &begins)), Some(158));
        let again = sealed(tcp(client, at.ip(), 1, 80, SYN));
        assert_eq!(node.drop_of(|node| node.send(&a, &again)), Some(158));
        // Its row goes: nobody is connected any more.
        node.no_member(SERVICE, number(1, client), client);
        let lost = sealed(tcp(client, at.ip(), 1, 80, ACK));
        assert_eq!(node.drop_of(|node| node.send(&a, &lost)), Some(158));
    }
}

/// An address of another node's endpoint.
fn elsewhere(like: IpAddr) -> IpAddr {
    if like.is_ipv4() { "10.2.0.7" } else { "f00d:2::7" }.parse().unwrap()
}

/// A node that forwards, with backends 1 at its endpoint and 2 at another node's.
fn outside(features: Features) -> World {
    let mut world = World::with(features);
    route_outside();
    let (a, key) = (world.a, PolicyKey::any(Direction::Ingress, 0));
    world.node.rules(&a, &[(key, PolicyRow::allow(&key, 1))]);
    for (near, own, _) in world.families() {
        world.node.behind(elsewhere(own), IDENTITY, OTHER_NODE, false);
        for (id, at) in [(1, near), (2, elsewhere(own))] {
            world.node.backend(number(id, own), (at, 8080).into(), 0, BackendState::Active);
        }
    }
    world
}

/// Clients outside are connected to a backend; it leaves; they stay with it, and others find who is
/// there.
fn leaves(mut world: World, who: u32, other: u32) {
    for (near, own, far) in world.families() {
        let place = |id: u32| if id == 1 { near } else { elsewhere(own) };
        let at = SocketAddr::from((own, PORT));
        serve(&mut world.node, at, open_service, &[who], &[]);
        let reached = |world: &mut World, frame: Vec<u8>| ends_of(&world.got(&sealed(frame))).to.0;
        for flags in [SYN, ACK] {
            assert_eq!(reached(&mut world, tcp(far, own, 5000, PORT, flags)), place(who));
        }
        assert_eq!(reached(&mut world, udp(far, own, 5000, PORT)), place(who));
        serve(&mut world.node, at, open_service, &[other], &[who]);
        for flags in [ACK, ACK, FIN | ACK] {
            assert_eq!(reached(&mut world, tcp(far, own, 5000, PORT, flags)), place(who));
        }
        assert_eq!(reached(&mut world, udp(far, own, 5000, PORT)), place(other), "moves");
        for port in 6000..6050 {
            assert_eq!(reached(&mut world, tcp(far, own, port, PORT, SYN)), place(other));
        }
    }
    assert_eq!(world.node.drops(), [].into());
}

#[test]
fn clients_outside_keep_the_endpoint_that_left() {
    leaves(outside(Features::default()), 1, 2);
}

#[test]
fn clients_outside_keep_the_backend_elsewhere_that_left() {
    leaves(outside(Features::default()), 2, 1);
}

#[test]
fn clients_who_are_answered_directly_keep_the_backend_that_left() {
    leaves(outside(dsr()), 2, 1);
    leaves(outside(dsr()), 1, 2);
}

#[test]
fn answers_of_a_backend_that_left_come_from_the_service() {
    let mut world = outside(Features::default());
    let a = world.a;
    for (near, own, far) in world.families() {
        let at = SocketAddr::from((own, PORT));
        serve(&mut world.node, at, open_service, &[1], &[]);
        for flags in [SYN, ACK] {
            world.got(&sealed(tcp(far, own, 5000, PORT, flags)));
        }
        serve(&mut world.node, at, open_service, &[2], &[1]);
        let got = world.node.send(&a, &sealed(tcp(near, far, 8080, 5000, ACK)));
        assert_eq!(got.frame, forwarded(sealed(tcp(own, far, PORT, 5000, ACK))));
    }
}
