//! Tests: messages are written and read by the names of the API.

use prost::Message;
use serde_json::json;

use super::*;
use crate::{
    messages::*,
    schema::{FLOW_FILTER, FLOWS_RESPONSE},
};

fn response() -> GetFlowsResponse {
    let tcp = Tcp {
        source_port: 41234,
        destination_port: 5432,
        flags: Some(TcpFlagSet { syn: true, ..TcpFlagSet::default() }),
    };
    let flow = Flow {
        time: Some(Timestamp { seconds: 1_795_858_200, nanos: 120_000_000 }),
        verdict: verdict::DROPPED,
        drop_reason: 133,
        drop_reason_desc: 133,
        ip: Some(Ip { source: "10.0.0.1".into(), ip_version: 1, ..Ip::default() }),
        l4: Some(Layer4 { protocol: Some(Protocol::Tcp(tcp)) }),
        source: Some(FlowEndpoint {
            id: 7,
            identity: 1234,
            labels: vec!["k8s:app=web".into(), "k8s:b".into()],
            ..FlowEndpoint::default()
        }),
        kind: 1,
        event_type: Some(EventType { kind: 1, sub_type: 133 }),
        is_reply: Some(false),
        trace_observation_point: 101,
        ..Flow::default()
    };
    GetFlowsResponse {
        response: Some(FlowsResponse::Flow(flow)),
        node_name: "n1".into(),
        time: None,
    }
}

#[test]
fn a_flow_is_written_by_the_names_of_the_api() {
    let json = to_json(&FLOWS_RESPONSE, &response().encode_to_vec());
    let expected = json!({
        "flow": {
            "time": "2026-11-28T09:30:00.120Z",
            "verdict": "DROPPED",
            "drop_reason": 133,
            "IP": {"source": "10.0.0.1", "ipVersion": "IPv4"},
            "l4": {"TCP": {
                "source_port": 41234, "destination_port": 5432, "flags": {"SYN": true},
            }},
            "source": {"ID": 7, "identity": 1234, "labels": ["k8s:app=web", "k8s:b"]},
            "Type": "L3_L4",
            "event_type": {"type": 1, "sub_type": 133},
            "trace_observation_point": "TO_ENDPOINT",
            "drop_reason_desc": "POLICY_DENIED",
            "is_reply": false,
        },
        "node_name": "n1",
    });
    assert_eq!(json, expected);
    let back = from_json(&FLOWS_RESPONSE, &json).unwrap();
    assert_eq!(GetFlowsResponse::decode(&*back).unwrap(), response());
}

#[test]
fn filters_are_read_and_what_is_wrong_in_them_is_named() {
    let json = json!({
        "source_pod": ["default/web"], "verdict": ["DROPPED", 1], "reply": [false],
        "eventType": [{"type": 4, "match_sub_type": true, "sub_type": 0}],
        "tcp_flags": [{"SYN": true}], "source_identity": [1, 2], "ip_trace_id": ["9"],
    });
    let filter = FlowFilter::decode(&*from_json(&FLOW_FILTER, &json).unwrap()).unwrap();
    let expected = FlowFilter {
        source_pod: vec!["default/web".into()],
        verdict: vec![2, 1],
        reply: vec![false],
        event_type: vec![EventTypeFilter { kind: 4, match_sub_type: true, sub_type: 0 }],
        tcp_flags: vec![TcpFlagSet { syn: true, ..TcpFlagSet::default() }],
        source_identity: vec![1, 2],
        ip_trace_id: vec![9],
        ..FlowFilter::default()
    };
    assert_eq!(filter, expected);
    let wrong = [
        (json!([]), "JSON: an object is wanted"),
        (json!({"pod": ["x"]}), "pod: there is no such member"),
        (json!({"source_pod": "x"}), "source_pod: a list is wanted"),
        (
            json!({"source_identity": [-1]}),
            "source_identity: a number from 0 to 4294967295 is wanted",
        ),
        (json!({"ip_version": ["5"]}), "ip_version: IP_NOT_USED or IPv4 or IPv6 is wanted"),
        (json!({"tcp_flags": [{"SYN": 1}]}), "tcp_flags.SYN: true or false is wanted"),
    ];
    for (json, problem) in wrong {
        assert_eq!(from_json(&FLOW_FILTER, &json).unwrap_err().to_string(), problem);
    }
}

#[test]
fn moments_are_read_as_they_are_written() {
    for (text, seconds, nanos) in [
        ("1970-01-01T00:00:00Z", 0, 0),
        ("2000-02-29T23:59:59.000000001Z", 951_868_799, 1),
        ("2026-11-28T09:30:00.120Z", 1_795_858_200, 120_000_000),
    ] {
        let at = Timestamp { seconds, nanos };
        assert_eq!((moment(&at), parse_moment(text)), (text.to_owned(), Some(at)));
    }
    let same = Some(Timestamp { seconds: 1_795_858_200, nanos: 0 });
    for text in ["2026-11-28T10:30:00+01:00", "2026-11-28 09:30", "2026-11-28T09:30"] {
        assert_eq!(parse_moment(text), same, "{text}");
    }
    assert_eq!(parse_moment("2026-11-28").map(|it| it.seconds), Some(1_795_824_000));
    for text in ["", "now", "2026-13-01", "2026-11-28T25:00", "2026-11-28T09:30:00.x", "1-1-1"] {
        assert_eq!(parse_moment(text), None, "{text}");
    }
}

#[test]
fn bytes_that_are_no_message_are_survived() {
    let whole = response().encode_to_vec();
    for cut in 0..whole.len() {
        to_json(&FLOWS_RESPONSE, &whole[..cut]);
        let mut broken = whole.clone();
        broken[cut] ^= 0xff;
        to_json(&FLOWS_RESPONSE, &broken);
    }
}
