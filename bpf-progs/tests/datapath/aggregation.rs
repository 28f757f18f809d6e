//! Which packets of a connection are traced where connections are aggregated.

use crate::common::*;
use std::net::IpAddr;
use volvox_bpf_progs::layouts::*;
use volvox_bpf_progs::{Features, TracePoint, TraceReason};

const ARRIVALS: u16 = ConfigFlags::AGGREGATE_ARRIVALS;
const CONNECTIONS: u16 = ARRIVALS | ConfigFlags::AGGREGATE_CONNECTIONS;
/// Longer than any test takes.
const INTERVAL: u16 = 1000;

/// Two endpoints where a may talk to b, and everywhere else.
struct World {
    node: Node,
    a: Endpoint,
    b: Endpoint,
    listener: Listener,
}

impl World {
    fn new(aggregate: u16, report_flags: u8) -> Self {
        stay_here();
        let features = Features { report_interval: INTERVAL, report_flags, ..Features::default() };
        let mut node = Node::with(features);
        let (a, b) = (node.endpoint(1), node.endpoint(2));
        let (out, into) =
            (PolicyKey::any(Direction::Egress, 0), PolicyKey::any(Direction::Ingress, 0));
        node.rules(&a, &[(out, PolicyRow::allow(&out, 0))]);
        node.rules(&b, &[(into, PolicyRow::allow(&into, 0))]);
        for endpoint in [&a, &b] {
            let config = endpoint.config();
            node.configure(ConfigRow { flags: config.flags | aggregate, ..config });
        }
        let listener = Listener::new(&mut node);
        Self { node, a, b, listener }
    }

    fn families(&self) -> [(IpAddr, IpAddr); 2] {
        [(self.a.v4(), self.b.v4()), (self.a.v6(), self.b.v6())]
    }

    /// Points and reasons of the traces that a frame from an endpoint leaves.
    fn traces(&mut self, from: Endpoint, frame: &[u8]) -> Vec<(u8, u8)> {
        assert_ne!(self.node.send(&from, frame).action, SHOT);
        let samples = self.listener.samples();
        let records = samples.iter().filter_map(|sample| match Record::parse(sample) {
            Some(Record::Trace(trace, _)) => Some((trace.header.subtype, trace.reason)),
            _ => None,
        });
        records.collect()
    }

    /// The same of TCP from a to b.
    fn forth(&mut self, src: IpAddr, dst: IpAddr, flags: u8) -> Vec<(u8, u8)> {
        self.traces(self.a, &tcp(src, dst, 1000, 80, flags))
    }

    /// The same of TCP from b to a.
    fn back(&mut self, src: IpAddr, dst: IpAddr, flags: u8) -> Vec<(u8, u8)> {
        self.traces(self.b, &tcp(dst, src, 80, 1000, flags))
    }
}

const FROM: (u8, u8) = (TracePoint::FromLxc as u8, TraceReason::Unknown as u8);
const NEW: (u8, u8) = (TracePoint::ToLxc as u8, TraceReason::New as u8);
const ESTABLISHED: (u8, u8) = (TracePoint::ToLxc as u8, TraceReason::Established as u8);
const REPLY: (u8, u8) = (TracePoint::ToLxc as u8, TraceReason::Reply as u8);

const NOTHING: [(u8, u8); 0] = [];
const FIN_SYN_RST: u8 = FIN | SYN | RST;

#[test]
fn arrivals_are_left_out_and_all_that_goes_on_is_kept() {
    let mut world = World::new(ARRIVALS, FIN_SYN_RST);
    for (src, dst) in world.families() {
        let frame = udp(src, dst, 1000, 80);
        assert_eq!(world.traces(world.a, &frame), [NEW]);
        assert_eq!(world.traces(world.a, &frame), [ESTABLISHED]);
        assert_eq!(world.traces(world.a, &frame), [ESTABLISHED]);
    }
}

#[test]
fn without_aggregation_every_packet_is_traced_twice() {
    let mut world = World::new(0, FIN_SYN_RST);
    for (src, dst) in world.families() {
        let frame = udp(src, dst, 1000, 80);
        assert_eq!(world.traces(world.a, &frame), [FROM, NEW]);
        assert_eq!(world.traces(world.a, &frame), [FROM, ESTABLISHED]);
    }
}

#[test]
fn a_connection_is_traced_when_it_opens_answers_and_closes() {
    let mut world = World::new(CONNECTIONS, FIN_SYN_RST);
    for (src, dst) in world.families() {
        assert_eq!(world.forth(src, dst, SYN), [NEW]);
        assert_eq!(world.forth(src, dst, SYN), NOTHING, "sent again");
        assert_eq!(world.back(src, dst, SYN | ACK), [REPLY]);
        for _ in 0..3 {
            assert_eq!(world.forth(src, dst, ACK), NOTHING);
            assert_eq!(world.back(src, dst, ACK), NOTHING);
        }
        assert_eq!(world.forth(src, dst, FIN | ACK), [ESTABLISHED]);
        assert_eq!(world.back(src, dst, RST), [REPLY]);
        assert_eq!(world.back(src, dst, RST), NOTHING);
        assert_eq!(world.forth(src, dst, SYN), [NEW], "the ports are used again");
    }
}

#[test]
fn the_flags_that_count_are_those_asked_for() {
    let mut world = World::new(CONNECTIONS, ACK);
    for (src, dst) in world.families() {
        assert_eq!(world.forth(src, dst, SYN), [NEW]);
        assert_eq!(world.forth(src, dst, ACK), [ESTABLISHED]);
        assert_eq!(world.forth(src, dst, ACK), NOTHING);
        assert_eq!(world.forth(src, dst, FIN | ACK), NOTHING);
        let connection = Connection { opener: (src, 1000), other: (dst, 80), protocol: TCP };
        let row = world.node.tracked(connection, TupleFlags::OUT).unwrap();
        assert_eq!(row.tx_flags_seen, SYN | ACK | FIN, "all are kept");
    }
}

#[test]
fn a_connection_is_traced_again_after_the_interval() {
    let mut world = World::new(CONNECTIONS, FIN_SYN_RST);
    for (src, dst) in world.families() {
        let connection = Connection { opener: (src, 1000), other: (dst, 80), protocol: UDP };
        let frame = udp(src, dst, 1000, 80);
        assert_eq!(world.traces(world.a, &frame), [NEW]);
        assert_eq!(world.traces(world.a, &frame), NOTHING);
        // As if that time had passed: the receiver's entry, in the direction that it hears.
        world.node.change(connection, TupleFlags::IN, |row| {
            row.last_rx_report = row.last_rx_report.wrapping_sub(u32::from(INTERVAL) + 2);
        });
        assert_eq!(world.traces(world.a, &frame), [ESTABLISHED]);
        assert_eq!(world.traces(world.a, &frame), NOTHING);
    }
}

#[test]
fn each_direction_is_reported_for_itself() {
    let mut world = World::new(CONNECTIONS, FIN_SYN_RST);
    for (src, dst) in world.families() {
        let frame = udp(src, dst, 1000, 80);
        world.traces(world.a, &frame);
        let reply = udp(dst, src, 80, 1000);
        assert_eq!(world.traces(world.b, &reply), [REPLY]);
        assert_eq!(world.traces(world.b, &reply), NOTHING);
        assert_eq!(world.traces(world.a, &frame), NOTHING);
    }
}

#[test]
fn what_leaves_for_the_stack_is_aggregated_too() {
    let mut world = World::new(CONNECTIONS, FIN_SYN_RST);
    for (src, far) in [(world.a.v4(), "192.0.2.1"), (world.a.v6(), "2001:db8::1")] {
        let frame = udp(src, far.parse().unwrap(), 1000, 80);
        let stack = TracePoint::ToStack as u8;
        assert_eq!(world.traces(world.a, &frame), [(stack, TraceReason::New as u8)]);
        assert_eq!(world.traces(world.a, &frame), NOTHING);
    }
}

#[test]
fn what_has_no_connection_is_always_traced() {
    let mut world = World::new(CONNECTIONS, FIN_SYN_RST);
    for (src, dst) in world.families() {
        world.traces(world.a, &udp(src, dst, 1000, 80));
        let error = unreachable(dst, src, &udp(src, dst, 1000, 80));
        let related = (TracePoint::ToLxc as u8, TraceReason::Related as u8);
        for _ in 0..2 {
            assert_eq!(world.traces(world.b, &error), [related]);
        }
    }
}
