//! What `cilium_events` says of a packet.

use crate::common::*;
use volvox_bpf_progs::drop_reason::source_file;
use volvox_bpf_progs::layouts::*;
use volvox_bpf_progs::{Features, TracePoint, TraceReason};

struct World {
    node: Node,
    a: Endpoint,
    b: Endpoint,
    listener: Listener,
}

impl World {
    fn new(features: Features) -> Self {
        stay_here();
        let mut node = Node::with(features);
        let (a, b) = (node.endpoint(1), node.endpoint(2));
        let out = PolicyKey::ports(Direction::Egress, b.identity, UDP, 80, 16);
        let into = PolicyKey::any(Direction::Ingress, 0);
        node.rules(&a, &[(out, PolicyRow::allow(&out, 11))]);
        node.rules(&b, &[(into, PolicyRow::allow(&into, 22))]);
        let listener = Listener::new(&mut node);
        Self { node, a, b, listener }
    }

    /// The records that a frame from a leaves.
    fn records(&mut self, frame: &[u8]) -> Vec<Vec<u8>> {
        self.node.send(&self.a, frame);
        self.listener.samples()
    }
}

fn kinds(samples: &[Vec<u8>]) -> Vec<(u8, u8)> {
    samples.iter().map(|sample| (sample[0], sample[1])).collect()
}

const FROM: (u8, u8) = (Record::TRACE, TracePoint::FromLxc as u8);
const TO: (u8, u8) = (Record::TRACE, TracePoint::ToLxc as u8);
const VERDICT: (u8, u8) = (Record::VERDICT, 0);

#[test]
fn a_connection_is_traced_and_judged_once_at_each_end() {
    let mut world = World::new(Features::default());
    for (src, dst) in [(world.a.v4(), world.b.v4()), (world.a.v6(), world.b.v6())] {
        let frame = udp(src, dst, 1000, 80);
        assert_eq!(kinds(&world.records(&frame)), [FROM, VERDICT, VERDICT, TO]);
        assert_eq!(kinds(&world.records(&frame)), [FROM, TO], "established");
    }
}

#[test]
fn a_reply_is_not_judged() {
    let mut world = World::new(Features::default());
    for (src, dst) in [(world.a.v4(), world.b.v4()), (world.a.v6(), world.b.v6())] {
        world.records(&udp(src, dst, 1000, 80));
        let b = world.b;
        world.node.send(&b, &udp(dst, src, 80, 1000));
        let samples = world.listener.samples();
        assert_eq!(kinds(&samples), [FROM, TO]);
        let Some(Record::Trace(to, _)) = Record::parse(&samples[1]) else { panic!("{samples:?}") };
        assert_eq!(to.reason, TraceReason::Reply as u8);
    }
}

#[test]
fn a_verdict_names_its_row() {
    let mut world = World::new(Features::default());
    for (src, dst) in [(world.a.v4(), world.b.v4()), (world.a.v6(), world.b.v6())] {
        let frame = udp(src, dst, 1000, 80);
        let samples = world.records(&frame);
        let Some(Record::Verdict(sent, packet)) = Record::parse(&samples[1]) else {
            panic!("{samples:?}")
        };
        assert_eq!(packet, &frame[..]);
        assert_eq!((sent.header.source, sent.remote_identity), (world.a.id, world.b.identity));
        assert_eq!((sent.verdict, sent.dport, sent.protocol, sent.cookie), (0, 80, UDP, 11));
        assert_eq!((sent.is_egress(), sent.is_ipv6(), sent.match_kind()), (true, src.is_ipv6(), 2));
        assert_eq!(sent.header.len_orig as usize, frame.len());
        let Some(Record::Verdict(heard, _)) = Record::parse(&samples[2]) else {
            panic!("{samples:?}")
        };
        assert_eq!((heard.header.source, heard.remote_identity), (world.b.id, world.a.identity));
        assert_eq!((heard.is_egress(), heard.match_kind(), heard.cookie), (false, 4, 22));
    }
}

#[test]
fn a_trace_says_where_the_packet_goes() {
    let mut world = World::new(Features::default());
    for (src, dst) in [(world.a.v4(), world.b.v4()), (world.a.v6(), world.b.v6())] {
        let frame = udp(src, dst, 1000, 80);
        world.records(&frame);
        let samples = world.records(&frame);
        let Some(Record::Trace(from, _)) = Record::parse(&samples[0]) else {
            panic!("{samples:?}")
        };
        assert_eq!((from.header.source, from.src_identity), (world.a.id, world.a.identity));
        assert_eq!(
            (from.reason, from.flags),
            (TraceReason::Unknown as u8, u8::from(src.is_ipv6()))
        );
        let Some(Record::Trace(to, packet)) = Record::parse(&samples[1]) else {
            panic!("{samples:?}")
        };
        assert_eq!((to.header.source, to.dst_ep), (world.b.id, world.b.id));
        assert_eq!((to.src_identity, to.dst_identity), (world.a.identity, world.b.identity));
        assert_eq!((to.reason, to.ifindex), (TraceReason::Established as u8, world.b.ifindex));
        assert_eq!(packet, &frame[..]);
    }
}

#[test]
fn a_denial_is_a_verdict_then_a_drop() {
    let mut world = World::new(Features::default());
    let frame = udp(world.a.v4(), world.b.v4(), 1000, 81);
    let samples = world.records(&frame);
    assert_eq!(kinds(&samples), [FROM, VERDICT, (Record::DROP, 133)]);
    let Some(Record::Verdict(verdict, _)) = Record::parse(&samples[1]) else {
        panic!("{samples:?}")
    };
    assert_eq!((verdict.verdict, verdict.match_kind(), verdict.cookie), (-133, 0, 0));
    let Some(Record::Drop(drop, packet)) = Record::parse(&samples[2]) else {
        panic!("{samples:?}")
    };
    assert_eq!((drop.src_identity, drop.dst_identity), (world.a.identity, world.b.identity));
    assert_eq!((drop.header.source, drop.dst_ep, drop.ifindex), (world.a.id, 0, world.a.ifindex));
    assert_eq!(source_file(drop.file), Some("policy.h"));
    assert_eq!(packet, &frame[..]);
}

#[test]
fn a_denial_by_rule_names_the_rule() {
    let mut world = World::new(Features::default());
    let key = PolicyKey::ports(Direction::Ingress, world.a.identity, UDP, 80, 16);
    let b = world.b;
    world.node.rules(&b, &[(key, PolicyRow::deny(&key, 0xdead_beef))]);
    let samples = world.records(&udp(world.a.v6(), world.b.v6(), 1000, 80));
    assert_eq!(kinds(&samples), [FROM, VERDICT, VERDICT, (Record::DROP, 181)]);
    let Some(Record::Verdict(verdict, _)) = Record::parse(&samples[2]) else {
        panic!("{samples:?}")
    };
    assert_eq!((verdict.verdict, verdict.cookie, verdict.header.source), (-181, 0xdead_beef, b.id));
    let Some(Record::Drop(drop, _)) = Record::parse(&samples[3]) else { panic!("{samples:?}") };
    assert_eq!((drop.header.source, drop.dst_ep, drop.flags), (b.id, u32::from(b.id), 1));
}

#[test]
fn a_large_packet_is_captured_in_part() {
    let mut world = World::new(Features::default());
    let mut payload = udp_header(1000, 80);
    payload.extend([0x55; 900]);
    let frame = ip(world.a.v4(), world.b.v4(), UDP, &payload);
    let samples = world.records(&frame);
    let Some(Record::Trace(trace, packet)) = Record::parse(&samples[0]) else {
        panic!("{samples:?}")
    };
    assert_eq!((trace.header.len_orig as usize, trace.header.len_cap), (frame.len(), 128));
    assert_eq!(packet, &frame[..128]);
}

#[test]
fn an_endpoint_is_as_quiet_as_it_is_told() {
    let mut world = World::new(Features::default());
    let (a, b) = (world.a, world.b);
    let frame = udp(a.v4(), b.v4(), 1000, 80);
    for endpoint in [a, b] {
        world.node.configure(ConfigRow { flags: ConfigFlags::VERDICT_NOTIFY, ..endpoint.config() });
    }
    assert_eq!(kinds(&world.records(&frame)), [VERDICT, VERDICT]);
    world.node.configure(ConfigRow { flags: 0, ..a.config() });
    assert_eq!(kinds(&world.records(&udp(a.v4(), b.v4(), 1000, 81))), []);
}

#[test]
fn a_node_can_switch_a_kind_off() {
    let mut world =
        World::new(Features { notify: ConfigFlags::DROP_NOTIFY as u8, ..Features::default() });
    let (a, b) = (world.a, world.b);
    assert_eq!(kinds(&world.records(&udp(a.v4(), b.v4(), 1000, 80))), []);
    assert_eq!(kinds(&world.records(&udp(a.v4(), b.v4(), 1000, 81))), [(Record::DROP, 133)]);
}

#[test]
fn rubbish_is_not_a_record() {
    assert_eq!(Record::parse(&[]), None);
    assert_eq!(Record::parse(&[Record::DROP; 20]), None, "too short");
    assert_eq!(Record::parse(&[99; 200]), None, "of no kind");
}
