//! Which port stands for an endpoint's, and that no two flows have one.

use crate::common::outside::World;
use crate::common::*;
use std::net::IpAddr;
use volvox_bpf_progs::Features;
use volvox_bpf_progs::layouts::*;

/// The port that stands for the endpoint's on the wire.
fn port_of(world: &mut World, frame: Vec<u8>) -> u16 {
    ends_of(&world.sent(&sealed(frame))).from.1
}

/// A second endpoint that may talk to everybody.
fn another(world: &mut World) -> Endpoint {
    let b = world.node.endpoint(2);
    let key = PolicyKey::any(Direction::Egress, 0);
    world.node.rules(&b, &[(key, PolicyRow::allow(&key, 1))]);
    b
}

/// The other end's answer to a datagram from a port of the node's address.
fn answer(world: &World, far: IpAddr, port: u16) -> Vec<u8> {
    sealed(udp(far, world.up.ip(far), 53, port))
}

#[test]
fn a_port_below_the_range_becomes_one_of_it() {
    let mut world = World::new();
    for (near, _, far) in world.families() {
        for below in [1, 1000, 32_767] {
            let port = port_of(&mut world, udp(near, far, below, 53));
            assert!(port >= 32_768);
            assert_eq!(port_of(&mut world, udp(near, far, below, 53)), port, "it stays");
            let expected = delivered(sealed(udp(far, near, 53, below)), &world.a);
            assert_eq!(world.got(&answer(&world, far, port)), expected);
        }
        let identifier = ends_of(&world.sent(&sealed(echo(near, far, 7, false)))).identifier;
        assert!(identifier >= 32_768);
    }
}

#[test]
fn two_endpoints_never_share_a_port_to_the_same_end() {
    let mut world = World::new();
    let b = another(&mut world);
    for (near, _, far) in world.families() {
        let first = port_of(&mut world, udp(near, far, 40_000, 53));
        let a = std::mem::replace(&mut world.a, b);
        let second = port_of(&mut world, udp(b.ip(far), far, 40_000, 53));
        assert_eq!(first, 40_000);
        assert_ne!(second, first);
        let expected = delivered(sealed(udp(far, b.ip(far), 53, 40_000)), &b);
        assert_eq!(world.got(&answer(&world, far, second)), expected);
        let elsewhere = port_of(&mut world, udp(b.ip(far), far, 40_000, 54));
        assert_eq!(elsewhere, 40_000, "to another end it is free");
        world.a = a;
        let expected = delivered(sealed(udp(far, near, 53, 40_000)), &a);
        assert_eq!(world.got(&answer(&world, far, first)), expected);
    }
}

#[test]
fn a_port_of_the_nodes_own_is_not_given_away() {
    let mut world = World::new();
    for (near, own, far) in world.families() {
        let sent = sealed(udp(own, far, 40_000, 53));
        let got = world.node.emit(&world.up, 0, &sent);
        assert_eq!((got.action, got.frame), (OK, sent), "it keeps its port");
        let port = port_of(&mut world, udp(near, far, 40_000, 53));
        assert_ne!(port, 40_000);
        let back = answer(&world, far, 40_000);
        let got = world.node.receive(&world.up, &back);
        assert_eq!((got.action, got.frame), (OK, back), "the node's own answer is its own");
        let connection = Connection { opener: (own, 40_000), other: (far, 53), protocol: UDP };
        let row = world.node.tracked(connection, TupleFlags::OUT).unwrap();
        assert!(row.lifetime > now(), "the flow lives in connection tracking");
    }
}

#[test]
fn the_node_gives_way_to_an_endpoint_that_came_first() {
    let mut world = World::new();
    for (near, own, far) in world.families() {
        assert_eq!(port_of(&mut world, udp(near, far, 40_000, 53)), 40_000);
        let got = world.node.emit(&world.up, 0, &sealed(udp(own, far, 40_000, 53)));
        assert_eq!(got.action, OK);
        let port = ends_of(&got.frame).from.1;
        assert_ne!(port, 40_000);
        let got = world.node.receive(&world.up, &answer(&world, far, port));
        assert_eq!((got.action, got.frame), (OK, answer(&world, far, 40_000)));
    }
}

#[test]
fn a_connection_of_the_node_lives_as_long_as_its_packets_say() {
    let mut world = World::new();
    for (_, own, far) in world.families() {
        let connection = Connection { opener: (own, 40_000), other: (far, 443), protocol: TCP };
        let row = |world: &mut World| world.node.tracked(connection, TupleFlags::OUT).unwrap();
        let (up, mut emitted) = (world.up, Vec::new());
        for (flags, lifetime) in [(SYN, 60), (ACK, 8000), (FIN | ACK, 8000)] {
            assert_lifetime(lifetime, || {
                emitted = tcp(own, far, 40_000, 443, flags);
                assert_eq!(world.node.emit(&up, 0, &sealed(emitted.clone())).action, OK);
                row(&mut world).lifetime
            });
        }
        let answer = sealed(tcp(far, own, 443, 40_000, FIN | ACK));
        assert_lifetime(10, || {
            assert_eq!(world.node.receive(&up, &answer).action, OK);
            // Both have closed, and both had begun.
            row(&mut world).lifetime
        });
    }
}

#[test]
fn without_a_free_port_a_packet_drops() {
    let features = Features { nat_ports: (40_000, 40_001), ..Features::default() };
    let mut world = World::with(features);
    for (near, _, far) in world.families() {
        let mut ports: Vec<u16> =
            [1, 2].map(|sport| port_of(&mut world, udp(near, far, sport, 53))).to_vec();
        ports.sort_unstable();
        assert_eq!(ports, [40_000, 40_001]);
        let third = sealed(udp(near, far, 3, 53));
        let before = world.node.drops();
        assert_eq!(world.out(&third).action, SHOT);
        let after = world.node.drops();
        assert_eq!(after.get(&167), Some(&(before.get(&167).unwrap_or(&0) + 1)));
    }
}

/// Ports that flows found do not stand in heaps, through which later ones would try their way in vain.
#[test]
fn few_flows_are_refused_where_nine_of_ten_ports_are_taken() {
    let nat_ports = (40_000, 40_511);
    let mut world = World::with(Features { nat_ports, ..Features::default() });
    for (near, own, far) in world.families() {
        let mut senders = 1..;
        // Whether the next flow found a port. Its row of the way there is not needed: the map is small.
        let mut finds = |world: &mut World, stays: bool| {
            let from = (near, senders.next().unwrap());
            let got = world.out(&sealed(udp(near, far, from.1, 53)));
            let connection = Connection { opener: from, other: (far, 53), protocol: UDP };
            if got.action == OK && stays {
                world.node.change(connection, TupleFlags::OUT, |row| row.lifetime += 3600);
            } else {
                world.node.untrack(connection, TupleFlags::OUT);
            }
            if got.action == OK {
                let to = (own, ends_of(&got.frame).from.1);
                let there = Translation {
                    flags: TupleFlags::OUT,
                    protocol: UDP,
                    from,
                    to: (far, 53),
                    becomes: to,
                };
                world.node.translate(there, false);
                let back = Translation { flags: TupleFlags::IN, from: (far, 53), to, ..there };
                if !stays {
                    world.node.translate(Translation { becomes: from, ..back }, false);
                }
            }
            got.action == OK
        };
        let mut taken = 0;
        while taken < 460 {
            taken += usize::from(finds(&mut world, true));
        }
        let refused = (0..300).filter(|_| !finds(&mut world, false)).count();
        // Each tries 32 ports: 3 of 100 find none.
        assert!(refused < 20, "{refused} of 300");
    }
}

#[test]
fn the_port_of_a_flow_that_is_over_is_had_again_before_it_is_collected() {
    let features = Features { nat_ports: (40_000, 40_001), ..Features::default() };
    let mut world = World::with(features);
    for (near, _, far) in world.families() {
        let of = |sport| Connection { opener: (near, sport), other: (far, 53), protocol: UDP };
        let ports = [1, 2].map(|sport| port_of(&mut world, udp(near, far, sport, 53)));
        // The first has expired; of the second nothing is known any more.
        world.node.change(of(1), TupleFlags::OUT, |row| row.lifetime = now() - 2);
        assert_eq!(port_of(&mut world, udp(near, far, 3, 53)), ports[0]);
        world.node.untrack(of(2), TupleFlags::OUT);
        assert_eq!(port_of(&mut world, udp(near, far, 4, 53)), ports[1]);
        for (port, sport) in [(ports[0], 3), (ports[1], 4)] {
            let expected = delivered(sealed(udp(far, near, 53, sport)), &world.a);
            assert_eq!(world.got(&answer(&world, far, port)), expected);
        }
        // The first goes on: it gets none of those that live.
        world.next_second();
        assert_eq!(world.out(&sealed(udp(near, far, 1, 53))).action, SHOT);
    }
}

#[test]
fn either_row_of_a_flow_may_be_evicted() {
    let mut world = World::new();
    for (near, own, far) in world.families() {
        let of = |flags| Translation {
            flags,
            protocol: UDP,
            from: if flags == TupleFlags::OUT { (near, 1000) } else { (far, 53) },
            to: (far, 53),
            becomes: (own, 0),
        };
        let port = port_of(&mut world, udp(near, far, 1000, 53));
        world.node.translate(of(TupleFlags::OUT), false);
        assert_eq!(port_of(&mut world, udp(near, far, 1000, 53)), port, "it is found again");
        world.node.translate(of(TupleFlags::OUT), false);
        world.next_second();
        world.got(&answer(&world, far, port));
        let rows = world.node.translations();
        assert!(rows.contains(&Translation { becomes: (own, port), ..of(TupleFlags::OUT) }));
        let back = Translation { to: (own, port), ..of(TupleFlags::IN) };
        world.node.translate(back, false);
        world.next_second();
        assert_eq!(port_of(&mut world, udp(near, far, 1000, 53)), port);
        let rows = world.node.translations();
        assert!(rows.contains(&Translation { becomes: (near, 1000), ..back }));
    }
}

#[test]
fn a_port_that_went_to_another_meanwhile_is_left_to_him() {
    let mut world = World::new();
    for (near, own, far) in world.families() {
        let port = port_of(&mut world, udp(near, far, 1000, 53));
        let other = if near.is_ipv4() { "10.1.0.9" } else { "f00d::9" };
        let back = Translation {
            flags: TupleFlags::IN,
            protocol: UDP,
            from: (far, 53),
            to: (own, port),
            becomes: (other.parse().unwrap(), 1000),
        };
        world.node.translate(back, true);
        let connection = Connection { opener: back.becomes, other: (far, 53), protocol: UDP };
        let row = CtRow { lifetime: now() + 60, ..CtRow::default() };
        world.node.track(connection, TupleFlags::OUT, row);
        world.next_second();
        assert_ne!(port_of(&mut world, udp(near, far, 1000, 53)), port);
        assert!(world.node.translations().contains(&back));
    }
}
