//! Tests: the arguments mean the filters that Hubble's client sends, and flows read as its lines.

use clap::Parser;
use volvox_hubble::messages::*;

use super::*;

#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    arguments: ObserveArguments,
}

fn parsed(words: &str) -> ObserveArguments {
    let words = ["observe"].into_iter().chain(words.split(' ').filter(|it| !it.is_empty()));
    Line::try_parse_from(words).unwrap().arguments
}

fn asked(words: &str) -> GetFlowsRequest {
    request(&parsed(words), &Format::Json).unwrap()
}

fn one(filter: FlowFilter) -> Vec<FlowFilter> {
    vec![filter]
}

fn texts(all: &[&str]) -> Vec<String> {
    all.iter().map(|&it| it.into()).collect()
}

#[test]
fn a_span_is_asked_for_as_hubble_does() {
    let number = |words| {
        let it = asked(words);
        (it.number, it.follow, it.first)
    };
    assert_eq!(number(""), (20, false, false));
    assert_eq!(number("--last 3"), (3, false, false));
    assert_eq!(number("--first 3"), (3, false, true));
    assert_eq!(number("--all"), (u64::MAX, false, false));
    assert_eq!(number("-f"), (0, true, false));
    assert_eq!(number("-f --last 5"), (5, true, false));
    let it = asked("--since 2026-11-28T09:30:00Z --until 2026-11-28T09:31");
    assert_eq!((it.number, it.since.unwrap().seconds), (0, 1_795_858_200));
    assert_eq!(it.until.unwrap().seconds, 1_795_858_260);
    assert_eq!(asked("-f --until 5m").until, None);
    let ago = now() - asked("--since 1h").since.unwrap().nanoseconds();
    assert!((3599..3700).contains(&(ago / 1_000_000_000)), "{ago}");
    let error = request(&parsed("--since yesterday"), &Format::Json).unwrap_err();
    assert!(matches!(error, ClientError::Usage(ref it) if it.contains("yesterday")), "{error}");
}

#[test]
fn filters_are_those_that_hubble_sends() {
    let source = FlowFilter { source_pod: texts(&["a/b"]), ..Default::default() };
    let destination = FlowFilter { destination_pod: texts(&["a/b"]), ..Default::default() };
    assert_eq!(asked("--pod a/b").whitelist, [source.clone(), destination.clone()]);
    assert_eq!(asked("--not --pod a/b").blacklist, [source.clone(), destination]);
    let of = asked("--from-pod a/b --verdict DROPPED --verdict forwarded");
    assert_eq!(of.whitelist, one(FlowFilter { verdict: vec![2, 1], ..source }));
    // Behind a `--not` is the next one alone.
    let both = asked("--not --from-port 80 --to-port 81");
    assert_eq!(both.blacklist[0].source_port, ["80"]);
    assert_eq!(both.whitelist[0].destination_port, ["81"]);
    assert_eq!(asked("-n shop --pod web").whitelist[1].destination_pod, ["shop/web"]);
    assert_eq!(asked("-n shop").whitelist[0].source_pod, ["shop/"]);
    assert_eq!(asked("--pod a --port 1 --ip 10.0.0.1").whitelist.len(), 8);
    let more = asked("--to-identity world --to-identity 7 -t trace:to-endpoint -t drop");
    assert_eq!(more.whitelist[0].destination_identity, [2, 7]);
    let point = EventTypeFilter { kind: 4, match_sub_type: true, sub_type: 0 };
    let drop = EventTypeFilter { kind: 1, ..EventTypeFilter::default() };
    assert_eq!(more.whitelist[0].event_type, [point, drop]);
    let flags = asked("--tcp-flags syn,ack").whitelist[0].tcp_flags[0];
    assert_eq!((flags.syn, flags.ack, flags.fin), (true, true, false));
    for wrong in ["--verdict x", "--type x", "--tcp-flags x", "--identity x", "--type trace:x"] {
        let error = request(&parsed(wrong), &Format::Json).unwrap_err();
        assert!(matches!(error, ClientError::Usage(_)), "{wrong}: {error}");
    }
}

#[test]
fn the_mask_of_flows_for_people_is_one_that_the_server_takes() {
    let paths = request(&parsed("--print-policy-names"), &Format::Table).unwrap();
    let paths = paths.field_mask.unwrap().paths;
    assert!(volvox_hubble::mask::Mask::of_flow(&paths).is_ok());
    assert_eq!(asked("").field_mask, None, "programs get all");
}

fn flow() -> Flow {
    let flags = Some(TcpFlagSet { syn: true, ..TcpFlagSet::default() });
    let tcp = Tcp { source_port: 40000, destination_port: 5432, flags };
    Flow {
        time: Some(Timestamp { seconds: 1_795_858_200, nanos: 7_000_000 }),
        verdict: 1,
        ip: Some(Ip { source: "10.0.0.1".into(), destination: "fd00::2".into(), ..Ip::default() }),
        l4: Some(Layer4 { protocol: Some(Protocol::Tcp(tcp)) }),
        source: Some(FlowEndpoint {
            identity: 700,
            namespace: "shop".into(),
            pod_name: "web".into(),
            ..FlowEndpoint::default()
        }),
        destination: Some(FlowEndpoint {
            identity: 2,
            labels: texts(&["reserved:world"]),
            ..FlowEndpoint::default()
        }),
        event_type: Some(EventType { kind: 4, sub_type: 3 }),
        is_reply: Some(false),
        summary: "TCP Flags: SYN".into(),
        ..Flow::default()
    }
}

fn lines(format: Format, flow: Flow) -> Vec<String> {
    let response =
        GetFlowsResponse { response: Some(FlowsResponse::Flow(flow)), ..Default::default() };
    Writer::new(format, true).lines(&response)
}

#[test]
fn flows_read_as_hubble_writes_them() {
    let line = "Nov 28 09:30:00.007: shop/web:40000 (ID:700) -> [fd00::2]:5432 (world) to-stack \
                FORWARDED (TCP Flags: SYN)";
    assert_eq!(lines(Format::Table, flow()), [line]);
    let reply = lines(Format::Compact, Flow { is_reply: Some(true), ..flow() });
    assert!(reply[0].contains("[fd00::2]:5432 (world) <- shop/web:40000 (ID:700)"), "{reply:?}");
    let denied = Flow {
        verdict: 2,
        is_reply: None,
        event_type: Some(EventType { kind: 5, sub_type: 0 }),
        traffic_direction: 1,
        ingress_denied_by: vec![FlowPolicy {
            name: "web".into(),
            namespace: "shop".into(),
            kind: "CiliumNetworkPolicy".into(),
            ..FlowPolicy::default()
        }],
        ..flow()
    };
    let denied = &lines(Format::Table, denied)[0];
    let end = "policy-verdict:none INGRESS DENIED (TCP Flags: SYN; ingress denied by \
               CiliumNetworkPolicy shop/web)";
    assert!(denied.contains(" <> ") && denied.ends_with(end), "{denied}");
    let drop =
        Flow { verdict: 2, event_type: Some(EventType { kind: 1, sub_type: 133 }), ..flow() };
    let shown = lines(Format::Table, drop.clone());
    assert!(shown[0].contains("Policy denied DROPPED"), "{shown:?}");
    assert_eq!(shown[1], "  why: volvox why shop/web --to [fd00::2]:5432");
    assert_eq!(
        lines(Format::Dict, drop)[6],
        "        WHY: volvox why shop/web --to [fd00::2]:5432"
    );
    // Policy has nothing to do with it.
    let invalid = Flow { event_type: Some(EventType { kind: 1, sub_type: 132 }), ..flow() };
    assert_eq!(lines(Format::Table, invalid).len(), 1);
    let tab = lines(Format::Tab, flow());
    assert!(tab[0].starts_with("TIMESTAMP") && tab[1].contains("FORWARDED"), "{tab:?}");
    let dict = lines(Format::Dict, flow());
    assert_eq!(dict[1], "     SOURCE: shop/web:40000 (ID:700)");
}

#[test]
fn what_is_lost_is_said() {
    let of = |num_events_lost| {
        let at = Some(Timestamp { seconds: 1_795_858_200, nanos: 0 });
        let event = LostEvent { source: 1, num_events_lost, cpu: Some(3), first: at, last: at };
        let response = Some(FlowsResponse::LostEvents(event));
        let response = GetFlowsResponse { response, ..Default::default() };
        Writer::new(Format::Table, false).lines(&response).remove(0)
    };
    assert_eq!(of(7), "EVENTS LOST: PERF_EVENT_RING_BUFFER CPU(3) 7");
    assert!(of(0).contains("no agent ran from Nov 28 09:30:00.000 to"), "{}", of(0));
}

#[test]
fn an_event_of_the_agent_is_a_line() {
    let event = serde_json::json!({
        "agent_event": {"type": "ENDPOINT_CREATED", "endpoint_update": {"id": "7"}},
        "time": "2026-11-28T09:30:00Z",
    });
    let line = "Nov 28 09:30:00.000: ENDPOINT_CREATED {\"id\":\"7\"}";
    assert_eq!(text::agent_event(&event), line);
}

#[test]
fn the_command_that_says_why_is_one_that_the_client_takes() {
    use volvox_hubble::why::{command, is_by_policy};

    for (from, to, protocol, port, line) in [
        ("a/b", "c/d", 6, 80, "volvox why a/b --to c/d:80"),
        ("10.0.0.1", "fd00::1", 17, 53, "volvox why 10.0.0.1 --to [fd00::1]:53/udp"),
        ("a/b", "10.0.0.3", 1, 8, "volvox why a/b --to 10.0.0.3:8/icmp"),
    ] {
        assert_eq!(command(from, to, protocol, port).as_deref(), Some(line));
        crate::Arguments::try_parse_from(line.split(' ')).unwrap();
    }
    assert_eq!(command("a", "b", 47, 0), None);
    assert!(is_by_policy(133) && is_by_policy(181) && !is_by_policy(132));
}
