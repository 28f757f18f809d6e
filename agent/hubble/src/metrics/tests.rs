//! What flows count as, by the words of the flag.

use super::*;
use crate::messages::{
    EventType, FlowEndpoint, Icmp, Ip, Layer4, Ports, Protocol, Tcp, TcpFlagSet, direction, event,
    verdict,
};

fn end(namespace: &str, pod: &str, labels: &[&str]) -> Option<FlowEndpoint> {
    Some(FlowEndpoint {
        namespace: namespace.to_owned(),
        pod_name: pod.to_owned(),
        labels: labels.iter().map(|label| (*label).to_owned()).collect(),
        ..FlowEndpoint::default()
    })
}

fn tcp(port: u32, syn: bool, ack: bool) -> Option<Layer4> {
    let flags = TcpFlagSet { syn, ack, ..TcpFlagSet::default() };
    let tcp = Tcp { source_port: 40_000, destination_port: port, flags: Some(flags) };
    Some(Layer4 { protocol: Some(Protocol::Tcp(tcp)) })
}

/// From a client to a server: forwarded on its way in, and no reply.
fn flow() -> Flow {
    Flow {
        verdict: verdict::FORWARDED,
        ip: Some(Ip {
            source: "10.0.0.1".to_owned(),
            destination: "10.0.0.2".to_owned(),
            ip_version: 1,
            ..Ip::default()
        }),
        l4: tcp(80, true, false),
        source: end("shop", "web", &["k8s:app=web"]),
        destination: end("data", "db", &["k8s:app.kubernetes.io/name=db", "k8s:app=x"]),
        event_type: Some(EventType { kind: event::TRACE, sub_type: 0 }),
        traffic_direction: direction::INGRESS,
        is_reply: Some(false),
        ..Flow::default()
    }
}

/// `name{label=value}` of each series, with how often.
fn shown(metrics: &FlowMetrics) -> Vec<String> {
    let own = ["hubble_lost_events", "hubble_uncounted_flows"];
    let all = metrics.show().into_iter().filter(|it| !own.contains(&it.name));
    all.flat_map(|metric| {
        metric.series.into_iter().map(move |(labels, count)| {
            let labels: Vec<_> = labels.iter().map(|(name, it)| format!("{name}={it}")).collect();
            format!("{}{{{}}} {count}", metric.name, labels.join(","))
        })
    })
    .collect()
}

fn counted(text: &str, flows: &[Flow]) -> Vec<String> {
    let metrics = FlowMetrics::new(text).unwrap();
    flows.iter().for_each(|flow| metrics.count(flow));
    shown(&metrics)
}

#[test]
fn each_metric_counts_its_flows_by_its_labels() {
    let denied = Flow {
        verdict: verdict::DROPPED,
        drop_reason_desc: 133,
        event_type: Some(EventType { kind: event::DROP, sub_type: 133 }),
        is_reply: None,
        ..flow()
    };
    let reply = Flow { l4: tcp(40_000, true, true), is_reply: Some(true), ..flow() };
    let ping = Flow {
        l4: Some(Layer4 { protocol: Some(Protocol::IcmpV4(Icmp { kind: 8, code: 0 })) }),
        summary: "ICMPv4 EchoRequest".to_owned(),
        ..flow()
    };
    let judged = Flow {
        verdict: verdict::DROPPED,
        event_type: Some(EventType { kind: event::POLICY_VERDICT, sub_type: 0 }),
        policy_match_type: 2,
        traffic_direction: direction::EGRESS,
        ..denied.clone()
    };
    let from_host = Flow {
        source: Some(FlowEndpoint { identity: 1, ..FlowEndpoint::default() }),
        ..judged.clone()
    };
    let flows = [flow(), flow(), denied, reply, ping, judged, from_host];
    assert_eq!(
        counted("drop tcp icmp port-distribution policy", &flows),
        [
            "hubble_drop{reason=POLICY_DENIED,protocol=TCP} 3",
            "hubble_tcp_flags{flag=SYN,family=IPv4} 2",
            "hubble_tcp_flags{flag=SYN-ACK,family=IPv4} 1",
            "hubble_icmp{family=IPv4,type=EchoRequest} 1",
            "hubble_port_distribution{protocol=ICMPv4,port=0} 1",
            "hubble_port_distribution{protocol=TCP,port=80} 2",
            "hubble_policy_verdicts{direction=egress,match=l3-l4,action=dropped} 1",
        ]
    );
    assert_eq!(
        counted("flow", &flows[..3]),
        [
            "hubble_flows_processed{protocol=TCP,type=Drop,subtype=,verdict=DROPPED} 1",
            "hubble_flows_processed{protocol=TCP,type=Trace,subtype=to-endpoint,verdict=FORWARDED} 2",
        ]
    );
}

#[test]
fn flows_to_the_world_are_those_that_pods_begin() {
    let out = Flow {
        destination: end("", "", &["cidr:192.0.2.0/24", "reserved:world"]),
        traffic_direction: direction::EGRESS,
        ..flow()
    };
    let reply = Flow { is_reply: Some(true), ..out.clone() };
    let unknown = Flow { is_reply: None, ..out.clone() };
    let broken = Flow { verdict: verdict::DROPPED, drop_reason_desc: 130, ..out.clone() };
    let udp = Ports { source_port: 1, destination_port: 53 };
    let query = Flow { l4: Some(Layer4 { protocol: Some(Protocol::Udp(udp)) }), ..out.clone() };
    let later = Flow { l4: tcp(80, false, true), ..out.clone() };
    let all = [out, reply, unknown, broken, query, later, flow()];
    assert_eq!(
        counted("flows-to-world", &all),
        [
            "hubble_flows_to_world{protocol=TCP,verdict=FORWARDED} 2",
            "hubble_flows_to_world{protocol=UDP,verdict=FORWARDED} 1",
        ]
    );
    assert_eq!(
        counted("flows-to-world:any-drop;port;syn-only", &all),
        [
            "hubble_flows_to_world{protocol=TCP,verdict=DROPPED,port=80} 1",
            "hubble_flows_to_world{protocol=TCP,verdict=FORWARDED,port=80} 1",
            "hubble_flows_to_world{protocol=UDP,verdict=FORWARDED,port=53} 1",
        ]
    );
}

#[test]
fn ends_are_told_as_the_context_says() {
    let one = |options: &str, flow: Flow| counted(&format!("tcp:{options}"), &[flow]).remove(0);
    let with = |labels: &str| format!("hubble_tcp_flags{{flag=SYN,family=IPv4,{labels}}} 1");
    assert_eq!(
        one("sourceContext=workload|pod;destinationContext=app", flow()),
        with("source=shop/web,destination=db")
    );
    assert_eq!(
        one("sourceEgressContext=pod;sourceIngressContext=ip;destinationContext=namespace", flow()),
        with("source=10.0.0.1,destination=data")
    );
    assert_eq!(
        one("labelsContext=traffic_direction,destination_app,source_pod,source_ip", flow()),
        with("source_ip=10.0.0.1,source_pod=web,destination_app=db,traffic_direction=ingress")
    );
    let labels = ["reserved:world", "reserved:kube-apiserver"];
    let server = Flow { destination: end("", "", &labels), ..flow() };
    assert_eq!(
        one("destinationContext=dns|reserved-identity|ip", server),
        with("destination=reserved:kube-apiserver")
    );
    let nobody = Flow { source: None, ip: None, ..flow() };
    let said = counted("drop:sourceContext=ip|pod flow:sourceContext=ip|pod", &[nobody]);
    assert!(said[0].contains("source="), "{said:?}");
}

#[test]
fn a_pod_that_is_gone_takes_its_series_with_it() {
    let metrics = FlowMetrics::new(
        "tcp:sourceContext=pod flow:labelsContext=source_pod,source_namespace drop:sourceContext=ip",
    )
    .unwrap();
    let other = Flow { source: end("shop", "other", &[]), ..flow() };
    [flow(), other].iter().for_each(|flow| metrics.count(flow));
    let pods = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    metrics.counts().sweep(pods(&["shop/web", "shop/other"]));
    assert_eq!(shown(&metrics).len(), 4);
    // A name within another namespace is another pod's.
    metrics.counts().sweep(pods(&["shop/web", "data/other"]));
    let left = shown(&metrics);
    assert_eq!(left.len(), 2, "{left:?}");
    assert!(left.iter().all(|it| it.contains("web")), "{left:?}");
}

#[test]
fn no_metric_has_more_series_than_it_may_have() {
    let metrics = FlowMetrics::new("tcp:sourceContext=ip").unwrap();
    for number in 0..SERIES_MAX + 5 {
        let ip = Ip { source: number.to_string(), ip_version: 1, ..Ip::default() };
        metrics.count(&Flow { ip: Some(ip), ..flow() });
    }
    assert_eq!(shown(&metrics).len(), SERIES_MAX);
    let all = metrics.show();
    let uncounted = all.iter().find(|it| it.name == "hubble_uncounted_flows");
    assert_eq!(uncounted.unwrap().series, [(Vec::new(), 5)]);
}

#[test]
fn words_that_mean_nothing_are_refused_by_name() {
    let refused = |text: &str| FlowMetrics::new(text).unwrap_err().to_string();
    assert!(refused("flow dropp").contains("\"dropp\" is no metric: choose of flow, drop, tcp"));
    assert!(refused("drop drop").contains("drop is named twice"));
    assert!(refused("drop:sorceContext=pod").contains("\"sorceContext\" is no option"));
    assert!(refused("drop:any-drop").contains("no option"), "it is of another metric");
    assert!(refused("drop:sourceContext=pods").contains("sourceContext=\"pods\" means nothing"));
    assert!(refused("drop:sourceContext=").contains("means nothing"));
    assert!(refused("drop:labelsContext=pod").contains("source_pod"));
    let metrics = FlowMetrics::new("dns:query;ignoreAAAA http httpV2:exemplars=true flow").unwrap();
    assert_eq!(metrics.without_flows(), ["dns", "http", "httpV2"]);
    assert!(FlowMetrics::new(" ").unwrap().is_empty());
}
