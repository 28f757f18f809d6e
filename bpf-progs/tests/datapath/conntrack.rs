//! Connections: their states, what they let pass, and how long they are kept.

use crate::common::*;
use std::net::IpAddr;
use volvox_bpf_progs::layouts::*;

/// Two endpoints where a may talk to b and nothing else; tried in both families.
struct World {
    node: Node,
    a: Endpoint,
    b: Endpoint,
}

impl World {
    fn new() -> Self {
        let mut node = Node::new();
        let (a, b) = (node.endpoint(1), node.endpoint(2));
        let out = PolicyKey::any(Direction::Egress, b.identity);
        let into = PolicyKey::any(Direction::Ingress, a.identity);
        node.rules(&a, &[(out, PolicyRow::allow(&out, 0))]);
        node.rules(&b, &[(into, PolicyRow::allow(&into, 0))]);
        Self { node, a, b }
    }

    fn families(&self) -> [(IpAddr, IpAddr); 2] {
        [(self.a.v4(), self.b.v4()), (self.a.v6(), self.b.v6())]
    }

    /// Sends TCP from a to b, from port 1000 to 80.
    fn forth(&mut self, src: IpAddr, dst: IpAddr, flags: u8) -> Option<u8> {
        let a = self.a;
        self.node.drop_of(|node| node.send(&a, &tcp(src, dst, 1000, 80, flags)))
    }

    /// Sends the other way.
    fn back(&mut self, src: IpAddr, dst: IpAddr, flags: u8) -> Option<u8> {
        let b = self.b;
        self.node.drop_of(|node| node.send(&b, &tcp(dst, src, 80, 1000, flags)))
    }
}

fn connection(src: IpAddr, dst: IpAddr, protocol: u8) -> Connection {
    Connection { opener: (src, 1000), other: (dst, 80), protocol }
}

#[test]
fn an_opener_gets_one_entry_at_each_end() {
    let mut world = World::new();
    for (src, dst) in world.families() {
        let before = world.node.tracked_count();
        for _ in 0..3 {
            assert_eq!(world.forth(src, dst, SYN), None);
        }
        assert_eq!(world.node.tracked_count(), before + 2);
        for tuple in [TupleFlags::OUT, TupleFlags::IN] {
            let row = world.node.tracked(connection(src, dst, TCP), tuple).unwrap();
            assert_eq!(row.src_sec_id, world.a.identity);
            assert_eq!(row.rev_nat_index.get(), 0);
        }
    }
}

#[test]
fn replies_need_no_rule() {
    let mut world = World::new();
    let b = world.b;
    for (src, dst) in world.families() {
        let reply = udp(dst, src, 80, 1000);
        assert_eq!(world.node.drop_of(|node| node.send(&b, &reply)), Some(133), "to nothing");
        let a = world.a;
        assert_eq!(world.node.drop_of(|node| node.send(&a, &udp(src, dst, 1000, 80))), None);
        assert_eq!(world.node.drop_of(|node| node.send(&b, &reply)), None);
        let other = udp(dst, src, 80, 1001);
        assert_eq!(world.node.drop_of(|node| node.send(&b, &other)), Some(133), "to another port");
    }
}

#[test]
fn replies_from_outside_need_no_rule() {
    let mut world = World::new();
    for (far, all) in [("192.0.2.1", 9), ("2001:db8::1", 10)] {
        let far: IpAddr = far.parse().unwrap();
        let (a, near) = (world.a, world.a.ip(far));
        let out = PolicyKey::any(Direction::Egress, all);
        world.node.rules(&a, &[(out, PolicyRow::allow(&out, 0))]);
        let reply = tcp(far, near, 443, 5000, SYN | ACK);
        assert_eq!(world.node.drop_of(|node| node.deliver(&a, 0, &reply)), Some(133));
        assert_eq!(world.node.send(&a, &tcp(near, far, 5000, 443, SYN)).action, OK);
        assert_eq!(world.node.drop_of(|node| node.deliver(&a, 0, &reply)), None);
    }
}

#[test]
fn lifetimes_follow_the_connection() {
    let mut world = World::new();
    for (src, dst) in world.families() {
        let of = connection(src, dst, TCP);
        let lifetime =
            |world: &mut World| world.node.tracked(of, TupleFlags::OUT).unwrap().lifetime;
        assert_lifetime(60, || {
            world.forth(src, dst, SYN);
            lifetime(&mut world)
        });
        assert_lifetime(60, || {
            world.back(src, dst, SYN | ACK);
            lifetime(&mut world)
        });
        assert_lifetime(8000, || {
            world.forth(src, dst, ACK);
            lifetime(&mut world)
        });
        let row = world.node.tracked(of, TupleFlags::OUT).unwrap();
        assert_eq!(row.flags, CtFlags::SEEN_NON_SYN);
        assert_eq!((row.tx_flags_seen, row.rx_flags_seen), (SYN | ACK, SYN | ACK));
        let a = world.a;
        assert_lifetime(60, || {
            world.node.send(&a, &udp(src, dst, 1000, 80));
            world.node.tracked(connection(src, dst, UDP), TupleFlags::OUT).unwrap().lifetime
        });
    }
}

#[test]
fn every_packet_keeps_an_entry_alive() {
    let mut world = World::new();
    for (src, dst) in world.families() {
        let of = connection(src, dst, TCP);
        world.forth(src, dst, SYN);
        world.forth(src, dst, ACK);
        for back in [false, true] {
            world.node.change(of, TupleFlags::OUT, |row| row.lifetime = 1);
            assert_lifetime(8000, || {
                if back {
                    world.back(src, dst, ACK)
                } else {
                    world.forth(src, dst, ACK)
                };
                world.node.tracked(of, TupleFlags::OUT).unwrap().lifetime
            });
        }
    }
}

#[test]
fn an_entry_closes_when_both_sides_have() {
    let mut world = World::new();
    for (src, dst) in world.families() {
        let of = connection(src, dst, TCP);
        world.forth(src, dst, SYN);
        world.back(src, dst, SYN | ACK);
        assert_lifetime(8000, || {
            world.forth(src, dst, FIN | ACK);
            world.node.tracked(of, TupleFlags::OUT).unwrap().lifetime
        });
        let closing = |world: &mut World, tuple| {
            let flags = world.node.tracked(of, tuple).unwrap().flags;
            flags & (CtFlags::RX_CLOSING | CtFlags::TX_CLOSING)
        };
        assert_eq!(closing(&mut world, TupleFlags::OUT), CtFlags::TX_CLOSING);
        assert_eq!(closing(&mut world, TupleFlags::IN), CtFlags::RX_CLOSING);
        assert_lifetime(10, || {
            world.back(src, dst, FIN | ACK);
            world.node.tracked(of, TupleFlags::OUT).unwrap().lifetime
        });
        world.node.change(of, TupleFlags::OUT, |row| row.lifetime = 1);
        assert_eq!(world.forth(src, dst, ACK), None, "the last ACK still passes");
        assert_eq!(
            world.node.tracked(of, TupleFlags::OUT).unwrap().lifetime,
            1,
            "but keeps nothing alive"
        );
    }
}

#[test]
fn a_reset_of_an_attempt_closes_at_once() {
    let mut world = World::new();
    for (src, dst) in world.families() {
        let of = connection(src, dst, TCP);
        world.forth(src, dst, SYN);
        assert_lifetime(10, || {
            world.back(src, dst, RST | ACK);
            world.node.tracked(of, TupleFlags::OUT).unwrap().lifetime
        });
    }
}

#[test]
fn a_new_syn_begins_a_closed_connection_anew() {
    let mut world = World::new();
    for (src, dst) in world.families() {
        let of = connection(src, dst, TCP);
        for flags in [SYN, FIN | ACK] {
            world.forth(src, dst, flags);
        }
        world.back(src, dst, FIN | ACK);
        assert_lifetime(60, || {
            world.forth(src, dst, SYN);
            world.node.tracked(of, TupleFlags::OUT).unwrap().lifetime
        });
        let row = world.node.tracked(of, TupleFlags::OUT).unwrap();
        assert_eq!((row.flags, row.rx_flags_seen, row.tx_flags_seen), (0, 0, SYN));
    }
}

#[test]
fn the_last_words_of_a_connection_are_still_a_reply_but_its_next_is_not() {
    let mut world = World::new();
    for (src, dst) in world.families() {
        for flags in [SYN, FIN | ACK] {
            world.forth(src, dst, flags);
        }
        assert_eq!(world.back(src, dst, FIN | ACK), None);
        assert_eq!(world.back(src, dst, SYN), Some(133), "b may not open towards a");
    }
}

#[test]
fn a_denied_packet_leaves_no_trace() {
    let mut world = World::new();
    for (src, dst) in world.families() {
        assert_eq!(world.back(src, dst, SYN), Some(133));
    }
    assert_eq!(world.node.tracked_count(), 0);
}

#[test]
fn a_reply_passes_even_where_an_opposite_connection_is_denied() {
    let mut world = World::new();
    let (a, b) = (world.a, world.b);
    for (src, dst) in world.families() {
        world.node.send(&a, &udp(src, dst, 1000, 80));
        // As if b had opened the same ports the other way before its policy forbade it.
        let opposite = Connection { opener: (dst, 80), other: (src, 1000), protocol: UDP };
        world.node.track(opposite, TupleFlags::OUT, CtRow::default());
        assert_eq!(world.node.drop_of(|node| node.send(&b, &udp(dst, src, 80, 1000))), None);
        assert_eq!(
            world.node.tracked(opposite, TupleFlags::OUT).unwrap().lifetime,
            0,
            "the denied one fades"
        );
    }
}
