//! Tests: each filter matches as Hubble's does, and what cannot be is refused by name.

use super::*;
use crate::messages::*;

fn end(id: u32, namespace: &str, pod: &str, labels: &[&str]) -> Option<FlowEndpoint> {
    Some(FlowEndpoint {
        id,
        identity: id * 100,
        namespace: namespace.into(),
        pod_name: pod.into(),
        labels: labels.iter().map(|&it| it.into()).collect(),
        cluster_name: "west".into(),
        workloads: vec![Workload { name: pod.into(), kind: "Deployment".into() }],
    })
}

/// A SYN of `shop/web-1` to `default/db`, dropped by policy.
fn flow() -> Flow {
    let flags = Some(TcpFlagSet { syn: true, ..TcpFlagSet::default() });
    Flow {
        verdict: verdict::DROPPED,
        drop_reason_desc: 133,
        ip: Some(Ip {
            source: "10.0.0.1".into(),
            destination: "fd00::2".into(),
            source_xlated: "192.0.2.1".into(),
            ip_version: 1,
            encrypted: false,
        }),
        l4: Some(Layer4 {
            protocol: Some(Protocol::Tcp(Tcp { source_port: 4, destination_port: 80, flags })),
        }),
        source: end(1, "shop", "web-1", &["k8s:app=web", "k8s:tier=front"]),
        destination: end(2, "default", "db", &["k8s:app=db", "reserved:host"]),
        destination_service: Some(FlowService { name: "db-svc".into(), namespace: "a".into() }),
        node_name: "west/n1.example".into(),
        node_labels: vec!["zone=a".into()],
        event_type: Some(EventType { kind: 1, sub_type: 133 }),
        traffic_direction: direction::INGRESS,
        interface: Some(NetworkInterface { index: 3, name: "eth0".into() }),
        uuid: "u-1".into(),
        destination_names: vec!["db.example.com".into()],
        ..Flow::default()
    }
}

/// Whether a filter of that JSON lets the flow pass.
fn passes(json: serde_json::Value) -> bool {
    passes_flow(&json, &flow()).unwrap_or_else(|error| panic!("{json}: {error}"))
}

fn passes_flow(json: &serde_json::Value, flow: &Flow) -> Result<bool, FilterError> {
    let bytes = crate::json::from_json(&crate::schema::FLOW_FILTER, json).unwrap();
    let filter = prost::Message::decode(&*bytes).unwrap();
    Ok(Filters::new(&[filter], &[])?.pass(flow))
}

#[test]
fn each_member_is_matched_as_hubble_does() {
    use serde_json::json;
    let cases = [
        (json!({}), true),
        (json!({"source_ip": ["10.0.0.1"]}), true),
        (json!({"source_ip": ["10.0.1.0/24", "10.0.0.0/24"]}), true),
        (json!({"source_ip": ["10.0.0.2"]}), false),
        (json!({"destination_ip": ["fd00::/64"]}), true),
        (json!({"source_ip_xlated": ["192.0.2.0/24"]}), true),
        (json!({"source_pod": ["shop/web"]}), true),
        (json!({"source_pod": ["shop/"]}), true),
        (json!({"source_pod": ["/web"]}), true),
        (json!({"source_pod": ["web"]}), false),
        (json!({"destination_pod": ["d"]}), true),
        (json!({"destination_service": ["a/db"]}), true),
        (json!({"source_service": ["a/db"]}), false),
        (json!({"verdict": ["DROPPED"]}), true),
        (json!({"verdict": ["FORWARDED"]}), false),
        (json!({"event_type": [{"type": 1}]}), true),
        (json!({"event_type": [{"type": 1, "match_sub_type": true, "sub_type": 181}]}), false),
        (json!({"event_type": [{"match_sub_type": true, "sub_type": 133}]}), true),
        (json!({"source_label": ["app=web"]}), true),
        (json!({"source_label": ["k8s:app in (a, web),!gone"]}), true),
        (json!({"source_label": ["any:app=web"]}), false),
        (json!({"source_label": ["app notin (web)"]}), false),
        (json!({"source_label": ["app!=web", "tier"]}), true),
        (json!({"destination_label": ["reserved:host"]}), true),
        (json!({"protocol": ["TCP"]}), true),
        (json!({"protocol": ["icmp", "udp"]}), false),
        (json!({"source_port": ["4"], "destination_port": ["80", "81"]}), true),
        (json!({"destination_port": ["8"]}), false),
        (json!({"reply": [false]}), true),
        (json!({"reply": [true]}), false),
        (json!({"source_identity": [100]}), true),
        (json!({"destination_identity": [100]}), false),
        (json!({"tcp_flags": [{"SYN": true}]}), true),
        (json!({"tcp_flags": [{"SYN": true, "ACK": true}]}), false),
        (json!({"node_name": ["west/n1.*"]}), true),
        (json!({"node_name": ["n1.example"]}), true),
        (json!({"node_name": ["east/n1.example"]}), false),
        (json!({"node_name": ["west/"]}), true),
        (json!({"node_labels": ["zone=a"]}), true),
        (json!({"ip_version": ["IPv6"]}), false),
        (json!({"source_workload": [{"name": "web-1"}]}), true),
        (json!({"source_workload": [{"name": "web-1", "kind": "Job"}]}), false),
        (json!({"traffic_direction": ["INGRESS"]}), true),
        (json!({"drop_reason_desc": ["POLICY_DENIED"]}), true),
        (json!({"interface": [{"name": "eth0"}]}), true),
        (json!({"interface": [{"index": 4, "name": "eth0"}]}), false),
        (json!({"uuid": ["u-1"]}), true),
        (json!({"source_cluster_name": ["west"]}), true),
        (json!({"encrypted": [true]}), false),
        (json!({"ip_trace_id": [5]}), false),
        (json!({"destination_fqdn": ["*.Example.com."]}), true),
        (json!({"destination_fqdn": ["example.com"]}), false),
        (json!({"source_fqdn": ["*"]}), false),
        (json!({"http_status_code": ["4+"]}), false),
        (json!({"dns_query": ["^db[.]"]}), false),
        (json!({"trace_id": ["x"]}), false),
        (json!({"verdict": ["DROPPED"], "source_pod": ["shop/other"]}), false),
    ];
    for (json, expected) in cases {
        assert_eq!(passes(json.clone()), expected, "{json}");
    }
}

#[test]
fn a_reply_is_asked_of_flows_that_know() {
    let json = serde_json::json!({"reply": [false]});
    let unknown = Flow { verdict: verdict::FORWARDED, ..flow() };
    assert_eq!(passes_flow(&json, &unknown), Ok(false));
    assert_eq!(passes_flow(&json, &Flow { is_reply: Some(false), ..unknown }), Ok(true));
}

#[test]
fn lists_of_filters_are_alternatives_and_exceptions() {
    let of = |verdict: i32| FlowFilter { verdict: vec![verdict], ..FlowFilter::default() };
    let pod = FlowFilter { source_pod: vec!["shop/".into()], ..FlowFilter::default() };
    let pass = |allow: &[FlowFilter], deny: &[FlowFilter]| {
        Filters::new(allow, deny).unwrap().pass(&flow())
    };
    assert!(pass(&[], &[]));
    assert!(pass(&[of(1), of(2)], &[]));
    assert!(!pass(&[of(1)], &[]));
    assert!(!pass(&[], std::slice::from_ref(&pod)));
    assert!(!pass(&[of(2)], &[of(1), pod]));
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    use serde_json::json;
    let long = "a".repeat(1025);
    let cases = [
        (json!({"source_ip": ["10.0.0"]}), "source_ip: \"10.0.0\" is neither an address"),
        (json!({"source_pod": [""]}), "source_pod: \"\" names nobody"),
        (json!({"source_pod": ["/"]}), "source_pod: \"/\" names nobody"),
        (json!({"destination_port": ["http"]}), "destination_port: \"http\" is no port"),
        (json!({"destination_port": ["70000"]}), "is no port: 0 to 65535"),
        (json!({"protocol": ["quic"]}), "protocol: \"quic\" is none of icmp"),
        (json!({"source_label": ["app in (a"]}), "has a ( without a )"),
        (json!({"source_label": ["app==a=b"]}), "has no value that a label can have"),
        (json!({"source_label": [""]}), "selects nothing"),
        (json!({"source_label": ["a b"]}), "has no key that a label can have"),
        (json!({"dns_query": ["("]}), "dns_query: \"(\" is no regular expression"),
        (json!({"http_path": [long]}), "is longer than 1024 bytes"),
        (json!({"http_url": ["(a{1000}){1000}"]}), "http_url"),
        (json!({"http_status_code": ["4x"]}), "is no status"),
        (json!({"node_name": ["a/b/c"]}), "is no node"),
        (json!({"node_name": [""]}), "names no node"),
        (json!({"source_fqdn": ["a b"]}), "is no name of a host"),
        (json!({"http_method": ["GET"], "event_type": [{"type": 1}]}), "leaves out type 129"),
        (json!({"experimental": {"cel_expression": ["true"]}}), "CEL"),
        (json!({"uuid": ["x".repeat(5000)]}), "uuid: \"xxx"),
        (json!({"source_identity": vec![7; 20_000]}), "at most"),
    ];
    for (json, text) in cases {
        let error = passes_flow(&json, &flow()).unwrap_err().to_string();
        assert!(error.contains(text), "{json}: {error}");
        assert!(error.len() < 500, "{error}");
    }
    let many = vec![FlowFilter::default(); 257];
    assert_eq!(Filters::new(&many, &[]).unwrap_err(), FilterError::TooMany);
}

#[test]
fn words_mean_what_they_look_like() {
    // A SYN of `shop/web-1` to `default/db` at port 80, dropped by policy.
    for words in [
        "",
        "dropped",
        "DROPPED tcp",
        "-forwarded",
        "80",
        "-81",
        "10.0.0.0/8 -192.168.0.0/16",
        "fd00::2",
        "shop/web",
        "from-pod:shop/ to-pod:db",
        "app=web",
        "k8s:app=web",
        "label:\"app in (web, cache)\"",
        "namespace:shop to-port:80",
        "ingress",
        "WEB-1",
        "front",
        "-checkout",
        "db.example",
        "db-svc syn",
        "type:drop",
    ] {
        // The summary of a flow is what its packet says.
        let flow = Flow { summary: "TCP Flags: SYN".into(), ..flow() };
        let parsed = Words::parse(words).unwrap_or_else(|error| panic!("{words}: {error}"));
        assert!(parsed.pass(&flow), "{words}");
    }
    for words in ["forwarded", "-dropped", "udp", "5432", "shop/db", "checkout", "-web", "egress"] {
        assert!(!Words::parse(words).unwrap().pass(&flow()), "{words}");
    }
}

#[test]
fn words_that_are_no_filter_are_refused_with_what_there_is() {
    let refusal = |words: &str| Words::parse(words).unwrap_err().to_string();
    let unknown = refusal("pods:shop/web");
    assert!(unknown.contains("\"pods\"") && unknown.contains("from-pod"), "{unknown}");
    assert!(refusal("label:\"app in").contains("quotation mark"));
    assert!(
        refusal("verdict:lost").contains("verdict=lost: forwarded"),
        "{}",
        refusal("verdict:lost")
    );
    assert!(refusal("port:http").contains("\"http\" is no port"), "{}", refusal("port:http"));
    assert!(refusal("ip:nobody").contains("nobody"));
    assert_eq!(Words::parse(&"a ".repeat(4000)).unwrap_err(), WordsError::TooLong);
}
