//! How connections end: by a reset or by both sides' FIN, with their entries of services, and their ports.

use crate::common::outside::World;
use crate::common::*;
use volvox_bpf_progs::layouts::*;

const HIGH: u16 = 45_001;
const SERVED: u16 = 8080;

/// How a side's packets go, by their TCP flags.
type Say = Box<dyn Fn(&mut World, u8)>;

/// A connection of one kind: how each side's packets go, and its entries, the service's last.
struct Talk {
    world: World,
    ask: Say,
    answer: Say,
    entries: Vec<(Connection, u8)>,
}

impl Talk {
    fn begin(&mut self) {
        (self.ask)(&mut self.world, SYN);
        (self.answer)(&mut self.world, SYN | ACK);
        (self.ask)(&mut self.world, ACK);
    }

    fn say(&mut self, is_answer: bool, flags: u8) {
        let say = if is_answer { &self.answer } else { &self.ask };
        say(&mut self.world, flags);
    }

    /// Checks for how many seconds each entry will stay.
    fn stays(&mut self, seconds: u32, run: impl Fn(&mut Self)) {
        run(self);
        for (connection, tuple) in self.entries.clone() {
            assert_lifetime(seconds, || {
                run(self);
                self.world.node.tracked(connection, tuple).unwrap().lifetime
            });
        }
    }
}

/// A pod that asks another by a service.
fn inside(like: usize) -> Talk {
    let mut world = World::new();
    let (a, b) = (world.a, world.node.endpoint(2));
    world.node.rules(&b, &[everything(Direction::Ingress)]);
    let near = world.families()[like].0;
    let (service, there) = (service_address(near), b.ip(near));
    world.node.backend(1, (there, SERVED).into(), 0, BackendState::Active);
    world.node.service((service, 80).into(), TCP, random_service(SERVICE), &[1]);
    let direct = Connection { opener: (near, HIGH), other: (there, SERVED), protocol: TCP };
    let asked = Connection { other: (service, 80), ..direct };
    Talk {
        world,
        ask: Box::new(move |world, flags| {
            let got = world.node.send(&a, &sealed(tcp(near, service, HIGH, 80, flags)));
            assert_eq!(got.action, REDIRECT, "{:?}", world.node.drops());
        }),
        answer: Box::new(move |world, flags| {
            let got = world.node.send(&b, &sealed(tcp(there, near, SERVED, HIGH, flags)));
            assert_eq!(got.action, REDIRECT, "{:?}", world.node.drops());
            assert_eq!(ends_of(&got.frame).from, (service, 80));
        }),
        entries: vec![
            (direct, TupleFlags::OUT),
            (direct, TupleFlags::IN),
            (asked, TupleFlags::SERVICE),
        ],
    }
}

/// Each kind in both families; a node is made for each, which takes a while.
#[test]
fn connections_end_when_they_do() {
    for like in 0..2 {
        let mut talk = inside(like);
        ends_that_nobody_knows_make_no_entry(&mut talk);
        a_reset_of_either_side_ends_all(&mut talk);
        both_sides_end_all_together_only(&mut talk);
    }
}

fn a_reset_of_either_side_ends_all(talk: &mut Talk) {
    for resetter in [false, true] {
        talk.begin();
        talk.say(true, ACK);
        talk.stays(10, |talk| talk.say(resetter, RST | ACK));
        // What the other side had on its way does not bring it back.
        for (connection, tuple) in talk.entries.clone().into_iter().take(1) {
            talk.world.node.change(connection, tuple, |row| row.lifetime = 1);
            talk.say(!resetter, ACK);
            assert_eq!(talk.world.node.tracked(connection, tuple).unwrap().lifetime, 1);
        }
    }
}

fn both_sides_end_all_together_only(talk: &mut Talk) {
    for first in [false, true] {
        talk.begin();
        talk.say(first, FIN | ACK);
        talk.say(!first, ACK);
        let (connection, tuple) = talk.entries[0];
        let row = talk.world.node.tracked(connection, tuple).unwrap();
        assert!(row.lifetime > now() + 1000, "the other side may speak for hours");
        talk.stays(10, |talk| talk.say(!first, FIN | ACK));
        for (connection, tuple) in talk.entries.clone() {
            talk.world.node.change(connection, tuple, |row| row.lifetime = 1);
            talk.say(first, ACK);
            assert_eq!(talk.world.node.tracked(connection, tuple).unwrap().lifetime, 1);
        }
    }
}

fn ends_that_nobody_knows_make_no_entry(talk: &mut Talk) {
    let before = talk.world.node.tracked_count();
    for flags in [RST, RST | ACK, FIN | ACK] {
        (talk.ask)(&mut talk.world, flags);
    }
    assert_eq!(talk.world.node.tracked_count(), before);
}

#[test]
fn the_port_of_what_was_reset_is_had_again() {
    let features = volvox_bpf_progs::Features { nat_ports: (40_000, 40_000), ..Default::default() };
    let mut world = World::with(features);
    for (near, own, far) in world.families() {
        let port = |world: &mut World, sport, flags| {
            let got = world.out(&sealed(tcp(near, far, sport, 443, flags)));
            (got.action == OK).then(|| ends_of(&got.frame).from.1)
        };
        assert_eq!(port(&mut world, 1, SYN), Some(40_000));
        world.got(&sealed(tcp(far, own, 443, 40_000, SYN | ACK)));
        assert_eq!(port(&mut world, 1, ACK), Some(40_000));
        assert_eq!(port(&mut world, 2, SYN), None, "it is the first one's");
        assert_eq!(port(&mut world, 1, RST | ACK), Some(40_000));
        assert_eq!(port(&mut world, 2, SYN), None, "for ten seconds");
        let first = Connection { opener: (near, 1), other: (far, 443), protocol: TCP };
        world.node.change(first, TupleFlags::OUT, |row| {
            assert!(row.lifetime <= now() + 10);
            row.lifetime -= 12;
        });
        assert_eq!(port(&mut world, 2, SYN), Some(40_000));
    }
}

#[test]
fn amid_a_connection_nothing_gets_another_source() {
    let mut world = World::new();
    let a = world.a;
    world.node.rules(&a, &[everything(Direction::Egress), everything(Direction::Ingress)]);
    for (near, _, far) in world.families() {
        for flags in [ACK, FIN | ACK, RST, SYN | ACK] {
            let got = world.out(&sealed(tcp(near, far, 1000, 443, flags)));
            assert_eq!(got.action, SHOT, "{flags:#x}");
        }
    }
    assert_eq!(world.node.translations(), []);
}
