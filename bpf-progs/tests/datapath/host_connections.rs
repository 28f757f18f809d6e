//! Connections of the node itself: who opened one is answered, and each packet of his is judged.

use crate::common::outside::{World, comparable, open_service};
use crate::common::*;
use std::net::IpAddr;
use volvox_bpf_progs::layouts::*;

const IN: Direction = Direction::Ingress;
const OUT: Direction = Direction::Egress;
/// A port that might stand for others', too.
const HIGH: u16 = 40_000;
/// A port of a client outside, from which a datagram is no answer.
const CLIENT: u16 = 50_000;

fn world(rows: &[(PolicyKey, PolicyRow)]) -> World {
    let mut world = World::with(host_firewall());
    world.node.host_rules(rows);
    world
}

fn hears(world: &mut World, frame: Vec<u8>) -> Option<u8> {
    let (up, frame) = (world.up, sealed(frame));
    world.node.drop_of(|node| node.receive(&up, &frame))
}

fn sends(world: &mut World, frame: Vec<u8>) -> Option<u8> {
    let (up, frame) = (world.up, sealed(frame));
    world.node.drop_of(|node| node.emit(&up, 0, &frame))
}

#[test]
fn what_the_node_asks_is_answered() {
    let mut world = world(&[everything(OUT)]);
    for (_, own, far) in world.families() {
        // An answer to a port that might stand for others is theirs, unless the stack has a socket for it.
        for (port, unasked) in [(500, Some(133)), (HIGH, Some(167))] {
            let later = tcp(far, own, 443, port, ACK);
            assert_eq!(hears(&mut world, later), unasked, "the stack has no such connection");
            for (asked, answered) in [
                (tcp(own, far, port, 443, SYN), tcp(far, own, 443, port, SYN | ACK)),
                (udp(own, far, port, 53), udp(far, own, 53, port)),
                (echo(own, far, port, false), echo(far, own, port, true)),
            ] {
                assert_eq!(hears(&mut world, answered.clone()), unasked, "nobody asked");
                for _ in 0..2 {
                    assert_eq!(sends(&mut world, asked.clone()), None);
                    assert_eq!(hears(&mut world, answered.clone()), None);
                }
            }
        }
        let connection = Connection { opener: (own, HIGH), other: (far, 443), protocol: TCP };
        let row = world.node.tracked(connection, TupleFlags::OUT).unwrap();
        assert_eq!((row.flags, row.src_sec_id), (0, 1));
        assert_eq!((row.tx_flags_seen, row.rx_flags_seen), (SYN, SYN | ACK));
    }
    assert_eq!(world.node.tracked_count(), 12, "one entry for each");
}

#[test]
fn who_asks_the_node_is_answered() {
    let mut world = world(&[everything(IN)]);
    for (_, own, far) in world.families() {
        for port in [22, HIGH] {
            for (asked, answered) in [
                (tcp(far, own, 5000, port, SYN), tcp(own, far, port, 5000, SYN | ACK)),
                (udp(far, own, CLIENT, port), udp(own, far, port, CLIENT)),
                (echo(far, own, port, false), echo(own, far, port, true)),
            ] {
                assert_eq!(sends(&mut world, answered.clone()), Some(133), "nobody asked");
                for _ in 0..2 {
                    assert_eq!(hears(&mut world, asked.clone()), None);
                    assert_eq!(sends(&mut world, answered.clone()), None);
                }
            }
        }
    }
}

#[test]
fn an_answer_of_the_node_permits_nothing() {
    let mut world = world(&[]);
    for (_, own, far) in world.families() {
        world.node.host_rules(&[everything(IN), everything(OUT)]);
        assert_eq!(hears(&mut world, tcp(far, own, 5000, HIGH, SYN)), None);
        for _ in 0..2 {
            assert_eq!(sends(&mut world, tcp(own, far, HIGH, 5000, SYN | ACK)), None);
            world.next_second();
        }
        let connection = Connection { opener: (own, HIGH), other: (far, 5000), protocol: TCP };
        let retained = world.node.tracked(connection, TupleFlags::OUT).expect("its port is kept");
        assert_eq!(retained.flags & CtFlags::ANSWERS, CtFlags::ANSWERS);
        let shut = [everything(OUT)];
        world.node.host_rules(&shut);
        assert_eq!(hears(&mut world, tcp(far, own, 5000, HIGH, ACK)), Some(133));
        world.node.host_rules(&[everything(IN)]);
        assert_eq!(hears(&mut world, tcp(far, own, 5000, HIGH, ACK)), None);
        assert_eq!(sends(&mut world, tcp(own, far, HIGH, 5000, ACK)), None, "it still answers");
        // The node opens one by the same ends, now to be judged by what it may send.
        world.node.untrack(
            Connection { opener: (far, 5000), other: (own, HIGH), protocol: TCP },
            TupleFlags::IN,
        );
        assert_eq!(sends(&mut world, tcp(own, far, HIGH, 5000, ACK)), Some(133));
        world.node.host_rules(&shut);
        assert_eq!(sends(&mut world, tcp(own, far, HIGH, 5000, SYN)), None);
        let row = world.node.tracked(connection, TupleFlags::OUT).unwrap();
        assert_eq!(row.flags & CtFlags::ANSWERS, 0, "it has opened it");
        assert_eq!(hears(&mut world, tcp(far, own, 5000, HIGH, SYN | ACK)), None);
    }
}

#[test]
fn an_opened_connection_is_judged_again_with_each_packet() {
    let mut world = world(&[everything(IN), everything(OUT)]);
    for (_, own, far) in world.families() {
        assert_eq!(hears(&mut world, tcp(far, own, 5000, 22, SYN)), None);
        assert_eq!(sends(&mut world, tcp(own, far, 6000, 443, SYN)), None);
        world.node.host_rules(&[]);
        assert_eq!(hears(&mut world, tcp(far, own, 5000, 22, ACK)), Some(133));
        assert_eq!(sends(&mut world, tcp(own, far, 22, 5000, ACK)), None, "an answer");
        assert_eq!(sends(&mut world, tcp(own, far, 6000, 443, ACK)), Some(133));
        assert_eq!(hears(&mut world, tcp(far, own, 443, 6000, ACK)), None, "an answer");
        world.node.host_rules(&[everything(IN), everything(OUT)]);
        assert_eq!(hears(&mut world, tcp(far, own, 5000, 22, ACK)), None);
        assert_eq!(sends(&mut world, tcp(own, far, 6000, 443, ACK)), None);
    }
}

#[test]
fn a_flow_of_the_nodes_that_gave_way_hears_its_answers() {
    let mut world = world(&[]);
    for (near, own, far) in world.families() {
        world.node.host_rules(&[everything(OUT)]);
        let taken = world.sent(&sealed(udp(near, far, HIGH, 53)));
        assert_eq!(ends_of(&taken).from, (own, HIGH), "an endpoint came first");
        let up = world.up;
        let got = world.node.emit(&up, 0, &sealed(udp(own, far, HIGH, 53)));
        assert_eq!(got.action, OK);
        let port = ends_of(&got.frame).from.1;
        assert_ne!(port, HIGH);
        let answer = world.node.receive(&up, &sealed(udp(far, own, 53, port)));
        assert_eq!((answer.action, answer.frame), (OK, sealed(udp(far, own, 53, HIGH))));
        let pods = world.got(&sealed(udp(far, own, 53, HIGH)));
        assert_eq!(pods, delivered(sealed(udp(far, near, 53, HIGH)), &world.a));
        world.node.host_rules(&[]);
        assert_eq!(sends(&mut world, udp(own, far, HIGH, 53)), Some(133));
        world.sent(&sealed(udp(near, far, HIGH, 53)));
    }
}

/// A service of the node's address whose backend is the node.
fn serve(world: &mut World, own: IpAddr) {
    let id = if own.is_ipv4() { 7 } else { 1007 };
    world.node.backend(id, (own, 8080).into(), 0, BackendState::Active);
    world.node.service((own, 30_080).into(), UDP, open_service(SERVICE), &[id]);
}

#[test]
fn clients_of_a_service_reach_the_node_by_its_port_there() {
    let mut world = world(&[]);
    let up = world.up;
    for (_, own, far) in world.families() {
        serve(&mut world, own);
        let asked = udp(far, own, 5000, 30_080);
        world.node.host_rules(&[allowed(PolicyKey::ports(IN, 0, UDP, 30_080, 16))]);
        assert_eq!(hears(&mut world, asked.clone()), Some(133), "that is the service's port");
        world.node.host_rules(&[allowed(PolicyKey::ports(IN, 0, UDP, 8080, 16))]);
        for _ in 0..2 {
            let got = world.node.receive(&up, &sealed(asked.clone()));
            assert_eq!((got.action, got.frame), (OK, sealed(udp(far, own, 5000, 8080))));
            let got = world.node.emit(&up, 0, &sealed(udp(own, far, 8080, 5000)));
            assert_eq!((got.action, got.frame), (OK, sealed(udp(own, far, 30_080, 5000))));
        }
        let heard = udp(far, own, 5000, 8080);
        let got = world.node.emit(&up, 0, &sealed(unreachable(own, far, &heard)));
        assert_eq!(got.action, OK, "{:?}", world.node.drops());
        assert_eq!(comparable(&got.frame), comparable(&unreachable(own, far, &asked)));
    }
}

#[test]
fn errors_about_a_connection_pass() {
    let mut world = world(&[everything(IN), everything(OUT)]);
    for (_, own, far) in world.families() {
        let router = if far.is_ipv4() { "203.0.113.1" } else { "2001:db8:ff::1" }.parse().unwrap();
        for port in [500, HIGH] {
            let asked = udp(own, far, port, 53);
            let heard = udp(far, own, CLIENT, port);
            assert_eq!(sends(&mut world, asked.clone()), None);
            assert_eq!(hears(&mut world, heard.clone()), None);
            world.node.host_rules(&[]);
            for teller in [far, router] {
                assert_eq!(
                    hears(&mut world, unreachable(teller, own, &sealed(asked.clone()))),
                    None
                );
            }
            assert_eq!(sends(&mut world, unreachable(own, far, &sealed(heard))), None);
            let unknown = sealed(udp(own, far, port + 1, 53));
            assert_eq!(hears(&mut world, unreachable(far, own, &unknown)), Some(133));
            let unknown = sealed(udp(far, own, 5000, port + 1));
            assert_eq!(sends(&mut world, unreachable(own, far, &unknown)), Some(133));
            world.node.host_rules(&[everything(IN), everything(OUT)]);
        }
    }
}
