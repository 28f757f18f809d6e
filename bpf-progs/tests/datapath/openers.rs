//! Only what opens a connection makes an entry that permits answers, and no attempt is an answer.

use crate::common::outside::World;
use crate::common::rows::{Rows, bring_back, rows_of};
use crate::common::*;
use std::net::IpAddr;
use volvox_bpf_progs::layouts::*;

const IN: Direction = Direction::Ingress;
const OUT: Direction = Direction::Egress;
/// A port of a client's, and one that is served.
const HIGH: u16 = 45_001;
const SERVED: u16 = 80;

/// TCP that opens nothing, and whose answer nobody needs.
const STRAYS: [u8; 9] =
    [RST, RST | ACK, FIN, FIN | ACK, SYN | ACK, SYN | RST, SYN | FIN, 0, SYN | FIN | RST | ACK];

/// An endpoint with these rules, or the node, and what goes to it and from it.
struct Alone {
    world: World,
    is_host: bool,
    /// Its address, and one outside.
    ends: (IpAddr, IpAddr),
}

impl Alone {
    fn new(is_host: bool, rules: &[(PolicyKey, PolicyRow)]) -> Self {
        let world = if is_host { World::with(host_firewall()) } else { World::new() };
        let (near, own, far) = world.families()[0];
        let mut alone = Self { world, is_host, ends: (if is_host { own } else { near }, far) };
        alone.permit(rules);
        alone
    }

    fn permit(&mut self, rules: &[(PolicyKey, PolicyRow)]) {
        let a = self.world.a;
        match self.is_host {
            true => self.world.node.host_rules(rules),
            false => self.world.node.rules(&a, rules),
        }
    }

    fn families(&self) -> [(IpAddr, IpAddr); 2] {
        self.world.families().map(|(near, own, far)| (if self.is_host { own } else { near }, far))
    }

    /// Why a packet drops that comes to it, or goes from it. `ports` are those of the one who opens, and of the other.
    fn pass(
        &mut self,
        direction: Direction,
        opened: Direction,
        ports: (u16, u16),
        flags: u8,
    ) -> Option<u8> {
        let (sport, dport) = if direction == opened { ports } else { (ports.1, ports.0) };
        self.say(direction, |from, to| tcp(from, to, sport, dport, flags))
    }

    fn say(
        &mut self,
        direction: Direction,
        frame: impl Fn(IpAddr, IpAddr) -> Vec<u8>,
    ) -> Option<u8> {
        let (near, far) = self.ends;
        let (up, a, is_host) = (self.world.up, self.world.a, self.is_host);
        let (from, to) = if direction == IN { (far, near) } else { (near, far) };
        let frame = sealed(frame(from, to));
        self.world.node.drop_of(|node| match (direction, is_host) {
            (IN, _) => node.receive(&up, &frame),
            (OUT, true) => node.emit(&up, 0, &frame),
            (OUT, false) => node.send(&a, &frame),
        })
    }
}

/// An endpoint, then the node, that may speak in one direction only, in both families. The second direction is shut.
#[test]
fn only_what_opens_has_answers() {
    for is_host in [false, true] {
        let mut alone = Alone::new(is_host, &[]);
        let maps = Rows::all(PINS);
        let nothing = rows_of(&maps);
        for (open, shut) in [(IN, OUT), (OUT, IN)] {
            bring_back(&maps, &nothing);
            alone.permit(&[everything(open)]);
            for family in 0..2 {
                alone.ends = alone.families()[family];
                no_stray_packet_opens_the_other_direction(&mut alone, open, shut);
                what_goes_on_is_answered_but_not_asked(&mut alone, open, shut);
                an_attempt_is_answered_but_not_by_one_of_the_other_side(&mut alone, open, shut);
                only_an_echo_is_answered_and_only_by_its_reply(&mut alone, open, shut);
            }
        }
    }
}

fn no_stray_packet_opens_the_other_direction(alone: &mut Alone, open: Direction, shut: Direction) {
    let before = alone.world.node.tracked_count();
    for (number, flags) in (0..).zip(STRAYS) {
        for ports in [(HIGH + number, SERVED), (SERVED, HIGH + number)] {
            alone.pass(open, open, ports, flags);
            for answer in [SYN, SYN | ACK, ACK, RST, FIN | ACK] {
                let dropped = alone.pass(shut, open, ports, answer);
                assert!(dropped.is_some(), "host {}, {flags:#x}, {answer:#x}", alone.is_host);
            }
        }
    }
    // Of the node's own the ports are kept.
    assert!(alone.is_host || alone.world.node.tracked_count() == before);
}

fn what_goes_on_is_answered_but_not_asked(alone: &mut Alone, open: Direction, shut: Direction) {
    let ports = (HIGH + 100, SERVED);
    assert_eq!(alone.pass(open, open, ports, ACK), None);
    for flags in [SYN, SYN | ACK] {
        assert_eq!(alone.pass(shut, open, ports, flags), Some(133));
    }
    assert_eq!(alone.pass(shut, open, ports, ACK), None);
    // From a server to a port of a client's it would be the other way round.
    alone.pass(open, shut, (HIGH + 101, SERVED), ACK);
    assert!(alone.pass(shut, shut, (HIGH + 101, SERVED), ACK).is_some());
}

fn an_attempt_is_answered_but_not_by_one_of_the_other_side(
    alone: &mut Alone,
    open: Direction,
    shut: Direction,
) {
    let mut pass = |direction, flags| alone.pass(direction, open, (HIGH + 200, SERVED), flags);
    assert_eq!(pass(open, SYN), None);
    assert_eq!(pass(shut, SYN), Some(133), "at the same time");
    assert_eq!(pass(shut, SYN | ACK), None);
    assert_eq!(pass(open, ACK), None);
    assert_eq!(pass(shut, SYN), Some(133), "while it lives");
    assert_eq!(pass(shut, RST), None);
    assert_eq!(pass(shut, SYN), Some(133), "when it is over");
    assert_eq!(pass(open, SYN), None, "the opener has the ports again");
    assert_eq!(pass(shut, SYN | ACK), None);
}

#[test]
fn associations_are_opened_by_an_init() {
    let sctp =
        |from, to, sport, dport, chunk| ip(from, to, SCTP, &sctp_header(sport, dport, chunk));
    let mut alone = Alone::new(false, &[everything(IN)]);
    for family in 0..2 {
        alone.ends = alone.families()[family];
        let (near, far) = alone.ends;
        let says = |alone: &mut Alone, direction, ports: (u16, u16), chunk| {
            alone.say(direction, |from, to| sctp(from, to, ports.0, ports.1, chunk))
        };
        for chunk in [SCTP_INIT_ACK, SCTP_ABORT, SCTP_DATA, 7, 8, 14] {
            for ports in [(HIGH, SERVED), (SERVED, HIGH)] {
                says(&mut alone, IN, ports, chunk);
                for answer in [SCTP_INIT, SCTP_INIT_ACK] {
                    assert_eq!(
                        says(&mut alone, OUT, (ports.1, ports.0), answer),
                        Some(133),
                        "{chunk}"
                    );
                }
            }
        }
        assert_eq!(says(&mut alone, IN, (HIGH, SERVED), SCTP_INIT), None);
        assert_eq!(says(&mut alone, OUT, (SERVED, HIGH), SCTP_INIT), Some(133));
        for chunk in [SCTP_INIT_ACK, SCTP_DATA] {
            assert_eq!(says(&mut alone, OUT, (SERVED, HIGH), chunk), None);
        }
        let of = Connection { opener: (far, HIGH), other: (near, SERVED), protocol: SCTP };
        assert_lifetime(10, || {
            assert_eq!(says(&mut alone, OUT, (SERVED, HIGH), SCTP_ABORT), None);
            alone.world.node.tracked(of, TupleFlags::IN).unwrap().lifetime
        });
    }
}

fn only_an_echo_is_answered_and_only_by_its_reply(
    alone: &mut Alone,
    open: Direction,
    shut: Direction,
) {
    let protocol = if alone.ends.0.is_ipv4() { ICMP } else { ICMPV6 };
    for identifier in [0, 7, HIGH] {
        let request = |from, to| echo(from, to, identifier, false);
        let reply = |from, to| echo(from, to, identifier, true);
        // A type that is neither an error nor of neighbours.
        let other = |from, to| ip(from, to, protocol, &icmp_header(143, 0, identifier));
        for unasked in 0..2 {
            if unasked == 0 {
                alone.say(open, reply)
            } else {
                alone.say(open, other)
            };
            assert!(alone.say(shut, request).is_some());
            assert!(alone.say(shut, reply).is_some());
            assert!(alone.say(shut, other).is_some());
        }
        assert_eq!(alone.say(open, request), None);
        assert!(alone.say(shut, request).is_some());
        assert!(alone.say(shut, other).is_some());
        assert_eq!(alone.say(shut, reply), None);
    }
}

#[test]
fn later_fragments_open_nothing() {
    let mut alone = Alone::new(false, &[everything(IN)]);
    let (near, far) = alone.ends;
    let (IpAddr::V4(to), IpAddr::V4(from)) = (near, far) else { panic!("of IPv4") };
    let hears = |alone: &mut Alone, protocol, fragment, l4: &[u8]| {
        let frame = ethernet(ANY_MACS, 0x0800, &ipv4(from, to, protocol, fragment, l4));
        let up = alone.world.up;
        alone.world.node.drop_of(|node| node.receive(&up, &frame))
    };
    for (protocol, head) in [
        (TCP, tcp_header(HIGH, SERVED, RST)),
        (UDP, udp_header(HIGH, SERVED)),
        (ICMP, icmp_header(0, 0, HIGH)),
    ] {
        hears(&mut alone, protocol, 100, &[0; 16]);
        assert_eq!(alone.world.node.tracked_count(), 0, "without a first one");
        if protocol == UDP {
            continue;
        }
        hears(&mut alone, protocol, 0x2000, &head);
        hears(&mut alone, protocol, 100, &[0; 16]);
        assert_eq!(alone.world.node.tracked_count(), 0, "nor with one that opens nothing");
    }
}
