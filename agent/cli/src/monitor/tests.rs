//! Tests: a drop is shown with the rules of the verdict before it; how records are shown to people
//! and to programs.

use serde_json::json;
use volvox_bpf_progs::layouts::{
    Direction, DropRecord, EventHeader, Record, TraceRecord, VerdictRecord,
};

use super::{line::Verdicts, text::text};

const FLOW: u32 = 0x1234;

fn header(kind: u8, subtype: u8) -> EventHeader {
    EventHeader { kind, subtype, source: 42, hash: FLOW, len_orig: 60, ..Default::default() }
}

fn packet() -> Vec<u8> {
    let mut frame = vec![0; 12];
    frame.extend([8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0]);
    frame.extend([10, 0, 0, 1, 10, 0, 0, 2, 0x30, 0x39, 0, 53, 0, 8, 0, 0]);
    frame
}

fn verdict(cookie: u32, verdict: i32) -> VerdictRecord {
    VerdictRecord {
        header: header(Record::VERDICT, 0),
        remote_identity: 300,
        verdict,
        dport: 53,
        protocol: 17,
        bits: Direction::Ingress as u8 | 2 << 3,
        cookie,
        ..Default::default()
    }
}

fn dropped(flow: u32) -> DropRecord {
    DropRecord {
        header: EventHeader { hash: flow, ..header(Record::DROP, 181) },
        src_identity: 300,
        dst_identity: 301,
        dst_ep: 42,
        ..Default::default()
    }
}

#[test]
fn a_drop_has_the_rules_of_the_verdict_before_it() {
    let mut verdicts = Verdicts::default();
    let packet = packet();
    verdicts.line(0, &Record::Verdict(verdict(7, -181), &packet));
    let mut line = verdicts.line(0, &Record::Drop(dropped(FLOW), &packet));
    assert_eq!(line.cookie(), 7);
    line.origins = vec!["web.yaml: CiliumNetworkPolicy default/web: spec.ingressDeny[0]".into()];
    assert_eq!(
        text(&line),
        "xx drop (Policy denied by denylist) at endpoint 42, identity 300->301: \
         10.0.0.1:12345 -> 10.0.0.2:53 UDP \
         [web.yaml: CiliumNetworkPolicy default/web: spec.ingressDeny[0]]\n   \
         why: volvox why 10.0.0.1 --to 10.0.0.2:53/udp"
    );
}

#[test]
fn a_drop_of_another_flow_or_cpu_has_not() {
    let mut verdicts = Verdicts::default();
    verdicts.line(0, &Record::Verdict(verdict(7, -181), &[]));
    assert_eq!(verdicts.line(1, &Record::Drop(dropped(FLOW), &[])).cookie(), 0);
    assert_eq!(verdicts.line(0, &Record::Drop(dropped(FLOW + 1), &[])).cookie(), 0);
    verdicts.line(0, &Record::Verdict(verdict(7, 0), &[]));
    verdicts.line(0, &Record::Trace(TraceRecord::default(), &[]));
    assert_eq!(verdicts.line(0, &Record::Drop(dropped(FLOW), &[])).cookie(), 0);
}

#[test]
fn programs_get_one_object_a_record() {
    let line = Verdicts::default().line(3, &Record::Verdict(verdict(7, 0), &packet()));
    assert_eq!(
        serde_json::to_value(&line).unwrap(),
        json!({
            "type": "policy-verdict", "action": "allow", "direction": "ingress",
            "remote-identity": 300, "protocol": 17, "port": 53, "matched": "peer-and-port",
            "cookie": 7, "endpoint": 42, "cpu": 3, "flow": FLOW, "length": 60,
            "packet": {
                "ethertype": 0x0800, "source": "10.0.0.1", "destination": "10.0.0.2",
                "protocol": 17, "source-port": 12345, "destination-port": 53,
            },
        })
    );
}

#[test]
fn people_get_a_line_a_record() {
    let packet = packet();
    let mut verdicts = Verdicts::default();
    let line = verdicts.line(0, &Record::Verdict(verdict(7, 0), &packet));
    assert_eq!(
        text(&line),
        "== policy allow ingress at endpoint 42, peer 300, matched peer-and-port: \
         10.0.0.1:12345 -> 10.0.0.2:53 UDP"
    );
    let trace = TraceRecord {
        header: header(Record::TRACE, 0),
        src_identity: 300,
        dst_identity: 301,
        dst_ep: 43,
        reason: 2,
        ..Default::default()
    };
    let line = verdicts.line(0, &Record::Trace(trace, &packet));
    assert!(line.concerns(42) && line.concerns(43) && !line.concerns(44));
    assert_eq!(
        text(&line),
        "-> to-endpoint at endpoint 42, reply, identity 300->301: \
         10.0.0.1:12345 -> 10.0.0.2:53 UDP"
    );
}
