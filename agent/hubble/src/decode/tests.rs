//! Tests: records of the datapath become the flows that Hubble shows, and broken ones none.

use std::{collections::BTreeMap, sync::Arc};

use zerocopy::IntoBytes;

use super::*;
use crate::{
    messages::{FlowEndpoint, FlowPolicy, FlowService, Protocol},
    names::{Node, Snapshot},
    packet::tests::{ipv4, tcp},
    ring::{self, RingWriter},
};

const WEB: [u8; 4] = [10, 0, 0, 1];
const DB: [u8; 4] = [10, 0, 0, 2];
const WORLD: [u8; 4] = [8, 8, 8, 8];
const TIME: u64 = 1_795_858_200_000_000_000;

/// A ring and names of two pods, `web` with number 7 and `db` with 9.
struct Lab {
    _dir: tempfile::TempDir,
    writer: RingWriter,
    names: Names,
}

impl Lab {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (writer, _) = ring::open(&dir.path().join("flows"), 63).unwrap();
        let node = Node {
            name: "n1".into(),
            cluster: "west".into(),
            labels: vec!["zone=a".into()],
            version: "volvox 1".into(),
        };
        let mut names = Names::new(node);
        let pod = |id, identity, name: &str| {
            Arc::new(FlowEndpoint {
                id,
                identity,
                namespace: "shop".into(),
                pod_name: name.into(),
                labels: vec![format!("k8s:app={name}")],
                cluster_name: "west".into(),
                ..FlowEndpoint::default()
            })
        };
        let policy = FlowPolicy { name: "no-db".into(), ..FlowPolicy::default() };
        let service = FlowService { name: "db".into(), namespace: "shop".into() };
        names.update(
            TIME,
            Snapshot {
                endpoints: BTreeMap::from([
                    (IpAddr::from(WEB), pod(7, 700, "web")),
                    (IpAddr::from(DB), pod(9, 900, "db")),
                ]),
                identities: BTreeMap::from([(2, Arc::new(vec!["reserved:world".into()]))]),
                services: BTreeMap::from([((IpAddr::from([10, 96, 0, 1]), 5432), service)]),
                policies: BTreeMap::from([(42, Arc::new(vec![policy]))]),
                interfaces: BTreeMap::from([(3, "eth0".to_owned())]),
                ..Snapshot::default()
            },
        );
        Self { _dir: dir, writer, names }
    }

    fn flow(&mut self, record: &[u8], packet: &[u8], cookie: u32) -> Flow {
        let bytes = [record, packet].concat();
        let number = self.writer.ring().bounds().1;
        self.writer.record(TIME, 0, cookie, &bytes);
        let ring = self.writer.ring();
        flow(&ring.get(number).unwrap(), ring, &self.names).unwrap()
    }
}

fn header(kind: u8, subtype: u8, source: u16, version: u8, packet: &[u8]) -> EventHeader {
    let (len_cap, len_orig) = (packet.len() as u16, packet.len() as u32);
    EventHeader { kind, subtype, source, len_orig, len_cap, version, ..EventHeader::default() }
}

#[test]
fn a_trace_is_a_flow_with_names_of_both_ends() {
    let mut lab = Lab::new();
    let packet = ipv4(WEB, DB, 6, &tcp(40000, 5432, 0x02));
    let mut trace = TraceRecord {
        header: header(4, 0, 9, 2, &packet),
        src_identity: 700,
        dst_identity: 900,
        dst_ep: 9,
        ifindex: 3,
        ..TraceRecord::default()
    };
    let found = lab.flow(trace.as_bytes(), &packet, 0);
    assert_eq!((found.verdict, found.kind), (verdict::FORWARDED, 1));
    let (source, to) = (found.source.unwrap(), found.destination.unwrap());
    assert_eq!((source.id, source.identity, &*source.pod_name), (7, 700, "web"));
    assert_eq!((to.id, &*to.namespace, &*to.cluster_name), (9, "shop", "west"));
    assert_eq!(to.labels, ["k8s:app=db"]);
    assert_eq!((found.is_reply, found.trace_reason), (Some(false), 1));
    // The receiver's program wrote it.
    assert_eq!(found.traffic_direction, direction::INGRESS);
    assert_eq!(found.trace_observation_point, 101);
    assert_eq!(found.event_type, Some(EventType { kind: 4, sub_type: 0 }));
    assert_eq!(found.interface.unwrap().name, "eth0");
    assert_eq!((&*found.summary, &*found.node_name), ("TCP Flags: SYN", "west/n1"));
    assert_eq!(found.time.unwrap().nanoseconds(), TIME);
    assert_eq!((found.uuid.len(), &found.uuid[14..15]), (36, "4"));
    let Some(Protocol::Tcp(tcp)) = found.l4.unwrap().protocol else { panic!("no TCP") };
    assert_eq!((tcp.source_port, tcp.destination_port), (40000, 5432));
    // A reply that the sender's program writes goes in, seen from it.
    trace.header.source = 7;
    trace.reason = 2;
    let reply = lab.flow(trace.as_bytes(), &packet, 0);
    assert_eq!((reply.is_reply, reply.reply), (Some(true), true));
    assert_eq!(reply.traffic_direction, direction::INGRESS);
    trace.reason = 5 | 0x80;
    let unknown = lab.flow(trace.as_bytes(), &packet, 0);
    assert_eq!((unknown.is_reply, unknown.traffic_direction, unknown.trace_reason), (None, 0, 0));
    assert!(unknown.ip.unwrap().encrypted);
}

#[test]
fn a_translated_sender_has_both_addresses() {
    let mut lab = Lab::new();
    let packet = ipv4([192, 168, 0, 1], WORLD, 17, &[0, 53, 0, 54]);
    let mut orig_ip = [0; 16];
    orig_ip[..4].copy_from_slice(&WEB);
    let trace = TraceRecord {
        header: header(4, 11, 0, 2, &packet),
        orig_ip,
        dst_identity: 2,
        ..TraceRecord::default()
    };
    let found = lab.flow(trace.as_bytes(), &packet, 0);
    let ip = found.ip.unwrap();
    assert_eq!((&*ip.source, &*ip.source_xlated), ("10.0.0.1", "192.168.0.1"));
    assert_eq!(found.source.unwrap().pod_name, "web");
    assert_eq!(found.destination.unwrap().labels, ["reserved:world"]);
    assert_eq!(found.traffic_direction, direction::EGRESS);
}

#[test]
fn a_drop_says_why_and_by_which_policy() {
    let mut lab = Lab::new();
    let packet = ipv4(WEB, DB, 6, &tcp(40000, 5432, 0x02));
    let mut drop = DropRecord {
        header: header(1, 181, 9, 3, &packet),
        src_identity: 700,
        dst_identity: 900,
        line: 12,
        file: 68,
        ..DropRecord::default()
    };
    let found = lab.flow(drop.as_bytes(), &packet, 42);
    assert_eq!((found.verdict, found.drop_reason, found.drop_reason_desc), (2, 181, 181));
    assert_eq!(found.traffic_direction, direction::INGRESS);
    assert_eq!(found.ingress_denied_by[0].name, "no-db");
    assert_eq!(found.is_reply, None);
    assert_eq!(found.file, Some(SourceFile { name: "policy.h".into(), line: 12 }));
    drop.header.source = 7;
    let out = lab.flow(drop.as_bytes(), &packet, 0);
    assert_eq!((out.traffic_direction, out.egress_denied_by.len()), (direction::EGRESS, 0));
    drop.header.subtype = 132;
    assert_eq!(lab.flow(drop.as_bytes(), &packet, 42).egress_denied_by, []);
    drop.header.source = 0;
    assert_eq!(lab.flow(drop.as_bytes(), &packet, 0).traffic_direction, 0);
}

#[test]
fn a_verdict_names_the_policies_that_decided() {
    let mut lab = Lab::new();
    let packet = ipv4(WEB, DB, 6, &tcp(40000, 5432, 0x02));
    let mut record = VerdictRecord {
        header: header(5, 0, 9, 1, &packet),
        remote_identity: 700,
        verdict: -181,
        // In, peer and port.
        bits: 1 | 2 << 3,
        cookie: 42,
        ..VerdictRecord::default()
    };
    let denied = lab.flow(record.as_bytes(), &packet, 0);
    assert_eq!((denied.verdict, denied.drop_reason_desc), (verdict::DROPPED, 181));
    assert_eq!((denied.policy_match_type, denied.traffic_direction), (2, direction::INGRESS));
    assert_eq!((denied.ingress_denied_by.len(), denied.ingress_allowed_by.len()), (1, 0));
    assert_eq!(denied.destination.unwrap().identity, 900, "by its address");
    record.verdict = 0;
    record.bits = 2 | 4 << 3;
    let allowed = lab.flow(record.as_bytes(), &packet, 0);
    assert_eq!((allowed.verdict, allowed.is_reply), (verdict::FORWARDED, Some(false)));
    assert_eq!((allowed.egress_allowed_by.len(), allowed.traffic_direction), (1, 2));
    record.bits |= 1 << 6;
    assert_eq!(lab.flow(record.as_bytes(), &packet, 0).verdict, verdict::AUDIT);
    record.verdict = 15001;
    assert_eq!(lab.flow(record.as_bytes(), &packet, 0).verdict, verdict::REDIRECTED);
}

#[test]
fn services_are_named_by_address_and_port() {
    let mut lab = Lab::new();
    let packet = ipv4(WEB, [10, 96, 0, 1], 6, &tcp(40000, 5432, 0x10));
    let trace = TraceRecord { header: header(4, 5, 7, 2, &packet), ..TraceRecord::default() };
    let found = lab.flow(trace.as_bytes(), &packet, 0);
    assert_eq!(found.destination_service.unwrap().name, "db");
    assert_eq!(found.source_service, None);
}

#[test]
fn records_of_any_bytes_are_survived() {
    let mut lab = Lab::new();
    let packet = ipv4(WEB, DB, 6, &tcp(1, 2, 0xff));
    let trace = TraceRecord { header: header(4, 0, 7, 2, &packet), ..TraceRecord::default() };
    let whole = [trace.as_bytes(), &packet].concat();
    for cut in 0..whole.len() {
        let number = lab.writer.ring().bounds().1;
        lab.writer.record(TIME, 0, 0, &whole[..cut]);
        let stored = lab.writer.ring().get(number).unwrap();
        let found = flow(&stored, lab.writer.ring(), &lab.names);
        assert_eq!(found.is_some(), cut >= 56, "{cut} bytes");
        strangers(&stored, &lab.names);
    }
}
