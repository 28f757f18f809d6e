//! What `cilium_signals` says where there is no room.

use crate::common::outside::World;
use crate::common::*;
use std::net::IpAddr;
use volvox_bpf_progs::Features;
use volvox_bpf_progs::layouts::*;

/// Ports to one end in these tests.
const PORTS: u16 = 64;

fn world() -> World {
    World::with(Features { nat_ports: (40_000, 40_000 + PORTS - 1), ..Features::default() })
}

/// All signals since the last call.
fn heard(listener: &mut Listener) -> Vec<SignalRecord> {
    let samples = listener.samples();
    samples.iter().map(|sample| SignalRecord::parse(sample).unwrap()).collect()
}

fn nat_full(far: IpAddr) -> SignalRecord {
    SignalRecord { signal: SignalRecord::NAT_FULL, data: u32::from(far.is_ipv6()) }
}

#[test]
fn a_flow_that_finds_a_port_late_is_told_of_and_none_before_it() {
    let mut world = world();
    let mut signals = Listener::to_signals(&mut world.node);
    for (near, _, far) in world.families() {
        let mut flows = (1..u16::MAX).map(|sport| sealed(udp(near, far, sport, 53)));
        let mut quiet = 0;
        let (action, reported) = loop {
            let action = world.out(&flows.next().unwrap()).action;
            let reported = heard(&mut signals);
            if !reported.is_empty() {
                break (action, reported);
            }
            assert_eq!(action, OK);
            quiet += 1;
        };
        assert!(quiet > PORTS / 2, "the flow behind {quiet} had trouble already");
        // Ports follow from the ends: by another hash this flow may be one that finds none.
        assert_eq!((action, reported), (OK, vec![nat_full(far)]), "behind {quiet} flows");
    }
}

#[test]
fn where_no_port_is_left_it_is_told_in_each_family_at_most_once_a_second() {
    let mut world = world();
    for (near, _, far) in world.families() {
        for sport in 40_000..40_000 + PORTS {
            assert_eq!(world.out(&sealed(udp(near, far, sport, 53))).action, OK);
        }
    }
    let mut signals = Listener::to_signals(&mut world.node);
    for (near, _, far) in world.families() {
        // The programs' clock may be one reading behind.
        let began = now() - 1;
        for sport in 0..1000 {
            assert_eq!(world.out(&sealed(udp(near, far, sport, 53))).action, SHOT);
        }
        let seconds = usize::try_from(now() - began + 1).unwrap();
        let heard = heard(&mut signals);
        assert!(heard.iter().all(|it| *it == nat_full(far)), "{heard:?}");
        assert!((1..=seconds).contains(&heard.len()), "{heard:?} in {seconds} seconds");
        let elsewhere = sealed(udp(near, far, 1, 54));
        assert_eq!(world.out(&elsewhere).action, OK, "to another end there are ports");
    }
}

#[test]
fn what_cannot_go_out_for_another_reason_tells_of_no_room() {
    let mut world = world();
    let mut signals = Listener::to_signals(&mut world.node);
    for (near, _, far) in world.families() {
        let sctp = sealed(ip(near, far, SCTP, &sctp_header(1000, 80, SCTP_INIT)));
        assert_eq!(world.out(&sctp).action, SHOT);
    }
    assert_eq!(heard(&mut signals), []);
}

#[test]
fn a_connection_that_cannot_be_recorded_is_told_of() {
    let mut node = Node::without_room();
    let (a, b) = (node.endpoint(1), node.endpoint(2));
    let out = PolicyKey::any(Direction::Egress, 0);
    node.rules(&a, &[(out, PolicyRow::allow(&out, 0))]);
    let into = PolicyKey::any(Direction::Ingress, 0);
    node.rules(&b, &[(into, PolicyRow::allow(&into, 0))]);
    let mut signals = Listener::to_signals(&mut node);
    for (src, dst) in [(a.v4(), b.v4()), (a.v6(), b.v6())] {
        assert_eq!(node.drop_of(|node| node.send(&a, &tcp(src, dst, 1000, 80, SYN))), None);
        assert_eq!(node.drop_of(|node| node.send(&b, &udp(dst, src, 80, 1000))), Some(133));
        assert_eq!(heard(&mut signals), [], "neither a new connection nor a refused one tells");
        assert_eq!(node.drop_of(|node| node.send(&a, &udp(src, dst, 1000, 80))), Some(155));
        let full = SignalRecord { signal: SignalRecord::CT_FULL, data: src.is_ipv6().into() };
        assert_eq!(heard(&mut signals), [full]);
    }
}
