//! Direct server return, at the node of the backend: it answers as what the client asked.

use crate::common::outside::{World, backend_id, serving};
use crate::common::*;
use std::net::{IpAddr, SocketAddr};
use volvox_bpf_progs::Features;
use volvox_bpf_progs::layouts::*;

const PORT: u16 = 30_080;

/// A node that serves an endpoint, and another one.
fn world(features: Features) -> World {
    let mut world = serving(features, PORT);
    for (_, own, _) in world.families() {
        world.node.ipcache(other_node(own), if own.is_ipv4() { 32 } else { 128 }, 6);
    }
    world
}

fn other_node(like: IpAddr) -> IpAddr {
    if like.is_ipv4() { "192.0.2.200" } else { "2001:db8::200" }.parse().unwrap()
}

/// What the endpoint's answer becomes.
fn answer(world: &mut World, frame: Vec<u8>) -> (u32, Vec<u8>) {
    let a = world.a;
    let got = world.node.send(&a, &sealed(frame));
    (got.action, got.frame)
}

#[test]
fn a_backend_answers_as_the_port_of_the_node_that_was_asked() {
    let mut world = world(dsr());
    for (near, own, far) in world.families() {
        let asked = SocketAddr::from((other_node(own), PORT));
        for (question, answered) in [
            (tcp(far, near, 5000, 8080, SYN), tcp(near, far, 8080, 5000, SYN | ACK)),
            (udp(far, near, 5000, 8080), udp(near, far, 8080, 5000)),
        ] {
            let heard = world.got(&reported(sealed(question.clone()), asked));
            assert_eq!(
                heard,
                reported(delivered(sealed(question), &world.a), asked),
                "it is left in"
            );
            let (action, frame) = answer(&mut world, answered);
            let ends = ends_of(&frame);
            assert_eq!((action, ends.from, ends.to.0), (REDIRECT, (asked.ip(), PORT), far));
            assert!(is_sealed(&frame));
        }
        // Of TCP only what opens a connection tells.
        world.got(&sealed(tcp(far, near, 5000, 8080, ACK)));
        let (_, frame) = answer(&mut world, tcp(near, far, 8080, 5000, ACK));
        assert_eq!(frame, forwarded(sealed(tcp(asked.ip(), far, PORT, 5000, ACK))));
        let connection = Connection { opener: (far, 5000), other: (near, 8080), protocol: TCP };
        let row = world.node.tracked(connection, TupleFlags::IN).unwrap();
        assert_eq!(row.flags & CtFlags::DSR, CtFlags::DSR);
    }
    assert_eq!(world.node.drops(), [].into());
}

#[test]
fn a_backend_answers_as_a_service_of_the_cluster() {
    let mut world = world(dsr());
    for (near, own, far) in world.families() {
        let text = if own.is_ipv4() { "203.0.113.80" } else { "2001:db8:80::80" };
        let asked: SocketAddr = (text.parse::<IpAddr>().unwrap(), 80).into();
        let id = backend_id(own);
        let balanced = LbRow { flags: LbFlags::LOAD_BALANCER, ..random_service(SERVICE + 1) };
        world.node.service(asked, UDP, balanced, &[id]);
        world.got(&reported(sealed(udp(far, near, 5000, 8080)), asked));
        let (_, frame) = answer(&mut world, udp(near, far, 8080, 5000));
        assert_eq!(frame, forwarded(sealed(udp(asked.ip(), far, 80, 5000))));
    }
}

#[test]
fn nobody_chooses_what_answers_seem_to_come_from() {
    let mut world = world(dsr());
    for (near, own, far) in world.families() {
        let inner = SocketAddr::from((service_address(near), 80));
        let id = backend_id(own);
        world.node.service(inner, UDP, random_service(SERVICE + 1), &[id]);
        let victim = if own.is_ipv4() { "203.0.113.9" } else { "2001:db8:9::9" }.parse().unwrap();
        for (number, forged) in [
            SocketAddr::new(victim, 80),
            SocketAddr::new(victim, PORT),
            SocketAddr::new(other_node(own), PORT + 1),
            SocketAddr::new(other_node(own), 22),
            inner,
        ]
        .into_iter()
        .enumerate()
        {
            let sport = 5000 + number as u16;
            world.got(&reported(sealed(udp(far, near, sport, 8080)), forged));
            let plain = sealed(udp(near, far, 8080, sport));
            assert_eq!(answer(&mut world, plain.clone()), (OK, plain), "{forged}");
        }
    }
}

#[test]
fn a_damaged_option_is_nothing() {
    let mut world = world(dsr());
    for (near, own, far) in world.families() {
        let asked = SocketAddr::from((other_node(own), PORT));
        let (kind, length) = if own.is_ipv4() { (34, 35) } else { (56, 57) };
        for (sport, at, value) in [(5000, kind, 0x1c), (5001, length, 4)] {
            let mut frame = reported(sealed(udp(far, near, sport, 8080)), asked);
            frame[at] = value;
            world.got(&frame);
            let plain = sealed(udp(near, far, 8080, sport));
            assert_eq!(answer(&mut world, plain.clone()), (OK, plain), "{at}");
        }
    }
}

#[test]
fn switched_off_an_option_is_nothing() {
    let mut world = world(Features::default());
    for (near, own, far) in world.families() {
        let asked = SocketAddr::from((other_node(own), PORT));
        world.got(&reported(sealed(udp(far, near, 5000, 8080)), asked));
        let plain = sealed(udp(near, far, 8080, 5000));
        assert_eq!(answer(&mut world, plain.clone()), (OK, plain));
    }
}

#[test]
fn a_client_hears_of_errors_as_of_what_he_asked_and_the_backend_of_its_answers() {
    let mut world = world(dsr());
    let a = world.a;
    for (near, own, far) in world.families() {
        let asked = SocketAddr::from((other_node(own), PORT));
        let question = reported(sealed(udp(far, near, 5000, 8080)), asked);
        world.got(&question);
        let got = world.node.send(&a, &sealed(unreachable(near, far, &question)));
        assert_eq!(got.action, REDIRECT, "{:?}", world.node.drops());
        assert!(is_sealed(&got.frame));
        assert_eq!(ends_of(&got.frame).from.0, asked.ip());
        // What the backend complains about still tells what the client asked.
        let (inner, option) = if own.is_ipv4() { (42, 62..70) } else { (62, 102..126) };
        let ports = got.frame[option.end..][..4].to_vec();
        let inside = [&got.frame[..14], &got.frame[inner..option.start], &ports, &[0; 4]].concat();
        assert_eq!(ends_of(&inside).to, (asked.ip(), PORT));
        assert_eq!(ends_of(&inside).from, (far, 5000));
        let answered = sealed(udp(near, far, 8080, 5000));
        let error = sealed(unreachable(far, near, &answered));
        assert_eq!(world.got(&error), delivered(error, &a));
    }
    assert_eq!(world.node.drops(), [].into());
}
