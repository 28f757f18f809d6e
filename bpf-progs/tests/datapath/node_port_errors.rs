//! ICMP errors about connections by a service from outside: each side hears of what it sent.

use crate::common::outside::{World, comparable, open_service, route_outside};
use crate::common::*;
use std::net::IpAddr;
use volvox_bpf_progs::layouts::*;

const PORT: u16 = 30_080;

/// A service of the node's address with this backend, whom everybody may ask.
fn world(backend: impl Fn(&World, IpAddr) -> IpAddr) -> World {
    let mut world = World::new();
    route_outside();
    let a = world.a;
    let key = PolicyKey::any(Direction::Ingress, 0);
    world.node.rules(&a, &[(key, PolicyRow::allow(&key, 1))]);
    for (id, (_, own, _)) in [7, 1007].into_iter().zip(world.families()) {
        let at = (backend(&world, own), 8080).into();
        world.node.backend(id, at, 0, BackendState::Active);
        world.node.service((own, PORT).into(), UDP, open_service(SERVICE), &[id]);
    }
    world
}

fn elsewhere(like: IpAddr) -> IpAddr {
    if like.is_ipv4() { "10.2.0.7" } else { "f00d:2::7" }.parse().unwrap()
}

fn is(got: &[u8], expected: Vec<u8>) {
    assert!(is_sealed(got));
    assert_eq!(comparable(got), comparable(&expected));
}

#[test]
fn a_client_and_an_endpoint_tell_each_other() {
    let mut world = world(|world, like| world.a.ip(like));
    let a = world.a;
    for (near, own, far) in world.families() {
        let asked = sealed(udp(far, own, 5000, PORT));
        let heard = world.got(&asked);
        let got = world.node.send(&a, &sealed(unreachable(near, far, &heard)));
        assert_eq!(got.action, REDIRECT, "{:?}", world.node.drops());
        let mut expected = asked.clone();
        // The endpoint saw it one hop later.
        expected[14..][..20].copy_from_slice(&forwarded(asked)[14..34]);
        is(&got.frame, forwarded(unreachable(own, far, &expected)));
        let answer = sealed(udp(near, far, 8080, 5000));
        let answered = world.node.send(&a, &answer).frame;
        let got = world.got(&sealed(unreachable(far, own, &answered)));
        is(&got, delivered(unreachable(far, near, &forwarded(answer)), &a));
    }
    assert_eq!(world.node.drops(), [].into());
}

#[test]
fn a_client_and_a_backend_elsewhere_tell_each_other() {
    let mut world = world(|_, like| elsewhere(like));
    for (_, own, far) in world.families() {
        let there = elsewhere(own);
        let asked = sealed(udp(far, own, 5000, PORT));
        let sent = world.got(&asked);
        let got = world.got(&sealed(unreachable(there, own, &sent)));
        is(&got, forwarded(unreachable(own, far, &forwarded(asked))));
        let port = ends_of(&sent).from.1;
        let answer = sealed(udp(there, own, 8080, port));
        let answered = world.got(&answer);
        let got = world.got(&sealed(unreachable(far, own, &answered)));
        is(&got, forwarded(unreachable(own, there, &forwarded(answer))));
    }
    assert_eq!(world.node.drops(), [].into());
}

#[test]
fn a_client_hears_that_the_node_itself_does_not_listen() {
    let mut world = world(|world, like| world.up.ip(like));
    let up = world.up;
    for (_, own, far) in world.families() {
        let asked = sealed(udp(far, own, 5000, PORT));
        let heard = world.node.receive(&up, &asked).frame;
        let got = world.node.emit(&up, 0, &sealed(unreachable(own, far, &heard)));
        assert_eq!(got.action, OK);
        is(&got.frame, unreachable(own, far, &asked));
    }
}
