//! While connection tracking changes its size, hooks run programs of two generations, each with
//! maps of its own. What the one tracks, the other knows.

use crate::common::*;
use aya::maps::{ArrayOfMaps, Map, MapFd};
use std::net::IpAddr;
use volvox_bpf_progs::{layouts::*, maps};

/// Two generations of the programs and two endpoints, where a may talk to b and nothing else. The
/// newer one's slots hold the maps of the older.
struct World {
    older: Node,
    newer: Node,
    a: Endpoint,
    b: Endpoint,
}

impl World {
    fn new() -> Self {
        let (mut older, mut newer) = (Node::new(), Node::beside());
        let (a, b) = (older.endpoint(1), older.endpoint(2));
        newer.know(&a);
        newer.know(&b);
        for node in [&mut older, &mut newer] {
            let out = PolicyKey::any(Direction::Egress, b.identity);
            let into = PolicyKey::any(Direction::Ingress, a.identity);
            node.rules(&a, &[(out, PolicyRow::allow(&out, 0))]);
            node.rules(&b, &[(into, PolicyRow::allow(&into, 0))]);
        }
        for (name, outer, slot) in maps::CONNECTIONS {
            let Some(Map::LruHashMap(old)) = older.ebpf.map(name) else { panic!("{name}") };
            newer.map::<ArrayOfMaps<_, MapFd>>(maps::OLD_CONNECTIONS[outer].name, |mut slots| {
                slots.set(slot, old.fd(), 0).expect("the slot takes a map of any size")
            });
        }
        Self { older, newer, a, b }
    }

    fn families(&self) -> [(IpAddr, IpAddr); 2] {
        [(self.a.v4(), self.b.v4()), (self.a.v6(), self.b.v6())]
    }
}

/// What a sends to b, what b answers, and the connection of both.
fn exchanges(src: IpAddr, dst: IpAddr) -> [(Vec<u8>, Vec<u8>, Connection); 2] {
    let connection = |protocol| Connection { opener: (src, 1000), other: (dst, 80), protocol };
    [
        (tcp(src, dst, 1000, 80, SYN), tcp(dst, src, 80, 1000, SYN | ACK), connection(TCP)),
        (udp(src, dst, 1000, 80), udp(dst, src, 80, 1000), connection(UDP)),
    ]
}

#[test]
fn what_an_older_program_tracked_is_known_to_a_newer_one() {
    let mut world = World::new();
    let (a, b) = (world.a, world.b);
    for (src, dst) in world.families() {
        for (sent, reply, connection) in exchanges(src, dst) {
            assert_eq!(world.newer.drop_of(|node| node.send(&b, &reply)), Some(133), "to nothing");
            assert_eq!(world.older.drop_of(|node| node.send(&a, &sent)), None);
            assert_eq!(world.newer.tracked(connection, TupleFlags::OUT), None);
            assert_eq!(world.newer.drop_of(|node| node.send(&b, &reply)), None);
            // From then on it is found at once.
            let row = world.newer.tracked(connection, TupleFlags::OUT).unwrap();
            assert_eq!(row.src_sec_id, a.identity);
        }
    }
}

#[test]
fn what_a_newer_program_tracked_is_known_to_an_older_one() {
    let mut world = World::new();
    let (a, b) = (world.a, world.b);
    for (src, dst) in world.families() {
        for (sent, reply, connection) in exchanges(src, dst) {
            assert_eq!(world.older.drop_of(|node| node.send(&b, &reply)), Some(133), "to nothing");
            assert_eq!(world.newer.drop_of(|node| node.send(&a, &sent)), None);
            assert_eq!(world.older.drop_of(|node| node.send(&b, &reply)), None);
            assert_eq!(world.newer.drop_of(|node| node.send(&b, &reply)), None);
            let known = [&mut world.newer, &mut world.older]
                .map(|node| node.tracked(connection, TupleFlags::IN).is_some());
            assert_eq!(known, [true; 2]);
        }
    }
}

#[test]
fn an_error_about_what_an_older_program_tracked_passes() {
    let mut world = World::new();
    let (a, b) = (world.a, world.b);
    for (src, dst) in world.families() {
        for (sent, ..) in exchanges(src, dst) {
            let error = unreachable(dst, src, &sent);
            assert_eq!(world.newer.drop_of(|node| node.send(&b, &error)), Some(133));
            assert_eq!(world.older.drop_of(|node| node.send(&a, &sent)), None);
            assert_eq!(world.newer.drop_of(|node| node.send(&b, &error)), None);
        }
    }
}

#[test]
fn a_connection_that_was_closed_begins_anew_in_both() {
    let mut world = World::new();
    let (a, b) = (world.a, world.b);
    for (src, dst) in world.families() {
        let [(sent, reply, connection), _] = exchanges(src, dst);
        for flags in [SYN, FIN | ACK] {
            world.older.send(&a, &tcp(src, dst, 1000, 80, flags));
        }
        assert_ne!(world.older.tracked(connection, TupleFlags::OUT).unwrap().flags, 0);
        assert_eq!(world.newer.drop_of(|node| node.send(&a, &sent)), None);
        assert_eq!(world.older.drop_of(|node| node.send(&b, &reply)), None);
        for node in [&mut world.newer, &mut world.older] {
            assert_eq!(node.tracked(connection, TupleFlags::OUT).unwrap().flags, 0);
        }
    }
}

#[test]
fn a_reply_to_what_an_older_program_tracked_passes_where_an_opposite_connection_is_denied() {
    let mut world = World::new();
    let (a, b) = (world.a, world.b);
    for (src, dst) in world.families() {
        let [_, (sent, reply, _)] = exchanges(src, dst);
        let opposite = Connection { opener: (dst, 80), other: (src, 1000), protocol: UDP };
        world.newer.track(opposite, TupleFlags::OUT, CtRow::default());
        assert_eq!(world.newer.drop_of(|node| node.send(&b, &reply)), Some(133), "to nothing");
        world.older.send(&a, &sent);
        assert_eq!(world.newer.drop_of(|node| node.send(&b, &reply)), None);
    }
}
