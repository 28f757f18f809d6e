//! Tests: a stream begins, skips, counts and ends as it was asked.

use std::sync::Mutex;

use prost::Message;
use tempfile::TempDir;
use tokio::time::Duration;
use volvox_bpf_progs::layouts::{EventHeader, TraceRecord};
use volvox_maps::Event;
use zerocopy::IntoBytes;

use super::*;
use crate::{
    agent_events::AgentEvents,
    messages::{AgentEvent, FieldMask, FlowFilter},
    names::{Names, Node, Snapshot},
    observer::{Informant, Later},
    packet::tests::{ipv4, tcp},
    peers::{PeerTerms, Peers},
    ring,
    tap::Tap,
};

struct Nobody;

impl Informant for Nobody {
    fn snapshot(&self) -> Later<'_, Option<Snapshot>> {
        Box::pin(async { None })
    }

    fn peers(&self) -> Later<'_, Option<Peers>> {
        Box::pin(async { Some(Peers::new()) })
    }
}

/// A ring of seven flows, whose ports are their numbers and whose times are seconds.
pub(crate) struct Lab {
    _dir: TempDir,
    tap: Tap,
    pub(crate) observer: Arc<Observer>,
}

pub(crate) const SECOND: u64 = 1_000_000_000;

impl Lab {
    pub(crate) fn new(capacity: u32) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (writer, _) = ring::open(&dir.path().join("flows"), capacity).unwrap();
        let ring = Arc::clone(writer.ring());
        let agent_events = Arc::new(Mutex::new(AgentEvents::new(7)));
        let interval = Duration::from_millis(10);
        let (tap, news) = Tap::new(writer, Vec::new(), interval, Arc::clone(&agent_events));
        let names = Names::new(Node { name: "n1".into(), ..Node::default() });
        let peer_terms = PeerTerms { port: 1, tls: false, prefer_ipv6: false };
        let terms = (peer_terms, interval);
        let observer = Observer::new(ring, names, agent_events, news, Box::new(Nobody), terms);
        Self { _dir: dir, tap, observer: Arc::new(observer) }
    }

    pub(crate) fn write(&mut self, ports: std::ops::Range<u16>) {
        for port in ports {
            let packet = ipv4([10, 0, 0, 1], [10, 0, 0, 2], 6, &tcp(port, 80, 2));
            let (len_cap, len_orig) = (packet.len() as u16, packet.len() as u32);
            let header =
                EventHeader { kind: 4, version: 2, len_cap, len_orig, ..EventHeader::default() };
            let trace = TraceRecord { header, ..TraceRecord::default() };
            let bytes = [trace.as_bytes(), &packet].concat();
            self.tap.take(&Event::Sample { cpu: 0, bytes }, u64::from(port) * SECOND);
        }
        self.tap.flush(now());
    }

    async fn ask(&self, request: GetFlowsRequest) -> Answers {
        flows(Arc::clone(&self.observer), request).await.unwrap()
    }

    /// Ports of the flows that are answered until the stream ends; 0 is how many are lost.
    async fn all(&self, request: GetFlowsRequest) -> Vec<u32> {
        let mut answers = self.ask(request).await;
        let mut all = Vec::new();
        while let Some(answer) = answers.recv().await {
            all.push(port(&answer.unwrap()));
        }
        all
    }

    async fn refused(&self, request: GetFlowsRequest) -> Status {
        flows(Arc::clone(&self.observer), request).await.unwrap_err()
    }
}

fn port(answer: &[u8]) -> u32 {
    match GetFlowsResponse::decode(answer).unwrap().response.unwrap() {
        FlowsResponse::Flow(flow) => match flow.l4.and_then(|l4| l4.protocol) {
            Some(crate::messages::Protocol::Tcp(tcp)) => tcp.source_port,
            _ => u32::MAX,
        },
        FlowsResponse::LostEvents(lost) => 100_000 + lost.num_events_lost as u32,
        FlowsResponse::NodeStatus(status) => panic!("{status:?}"),
    }
}

fn at(second: u64) -> Option<Timestamp> {
    Some(Timestamp::from_nanoseconds(second * SECOND))
}

fn odd() -> Vec<FlowFilter> {
    let source_port = (0..99).filter(|it| it % 2 == 1).map(|it| it.to_string()).collect();
    vec![FlowFilter { source_port, ..FlowFilter::default() }]
}

#[tokio::test]
async fn a_request_is_answered_from_where_it_says_to_where_it_says() {
    let mut lab = Lab::new(15);
    lab.write(1..11);
    let request = GetFlowsRequest::default;
    assert_eq!(lab.all(request()).await, (1..11).collect::<Vec<_>>());
    assert_eq!(lab.all(GetFlowsRequest { number: 3, ..request() }).await, [8, 9, 10]);
    assert_eq!(lab.all(GetFlowsRequest { number: u64::MAX, ..request() }).await.len(), 10);
    let first = GetFlowsRequest { first: true, number: 2, ..request() };
    assert_eq!(lab.all(first).await, [1, 2]);
    let filtered = GetFlowsRequest { number: 2, whitelist: odd(), ..request() };
    assert_eq!(lab.all(filtered).await, [7, 9]);
    let except = GetFlowsRequest { blacklist: odd(), ..request() };
    assert_eq!(lab.all(except).await, [2, 4, 6, 8, 10]);
    let span = GetFlowsRequest { since: at(4), until: at(6), ..request() };
    assert_eq!(lab.all(span).await, [4, 5, 6]);
    let since = GetFlowsRequest { since: at(8), number: 2, ..request() };
    assert_eq!(lab.all(since).await, [8, 9]);
    assert_eq!(lab.all(GetFlowsRequest { since: at(99), ..request() }).await, [0; 0]);
    // The newest three until then.
    let until = GetFlowsRequest { until: at(5), number: 3, ..request() };
    assert_eq!(lab.all(until).await, [3, 4, 5]);
}

#[tokio::test]
async fn what_cannot_be_asked_is_refused_at_once() {
    let lab = Lab::new(7);
    let both = GetFlowsRequest { first: true, follow: true, ..GetFlowsRequest::default() };
    assert_eq!(lab.refused(both).await.code(), tonic::Code::InvalidArgument);
    let mask = Some(FieldMask { paths: vec!["nobody".into()] });
    let status = lab.refused(GetFlowsRequest { field_mask: mask, ..Default::default() }).await;
    assert!(status.message().contains("\"nobody\""), "{status}");
    let bad = FlowFilter { source_ip: vec!["x".into()], ..FlowFilter::default() };
    let status = lab.refused(GetFlowsRequest { whitelist: vec![bad], ..Default::default() }).await;
    assert!(status.message().contains("source_ip"), "{status}");
}

#[tokio::test]
async fn a_masked_answer_says_only_what_is_asked() {
    let mut lab = Lab::new(7);
    lab.write(1..2);
    let masked = async |paths: &[&str]| {
        let paths = paths.iter().map(|&it| it.into()).collect();
        let field_mask = Some(FieldMask { paths });
        let mut answers = lab.ask(GetFlowsRequest { field_mask, ..Default::default() }).await;
        GetFlowsResponse::decode(&*answers.recv().await.unwrap().unwrap()).unwrap()
    };
    let some = masked(&["verdict", "time"]).await;
    assert_eq!((&*some.node_name, some.time), ("", at(1)));
    let Some(FlowsResponse::Flow(flow)) = some.response else { panic!("no flow") };
    assert_eq!((flow.verdict, flow.ip, flow.uuid), (1, None, String::new()));
    let whole = masked(&[]).await;
    assert_eq!((&*whole.node_name, whole.time), ("n1", at(1)));
}

#[tokio::test]
async fn who_follows_sees_what_comes() {
    let mut lab = Lab::new(15);
    lab.write(1..4);
    let follow = GetFlowsRequest { follow: true, ..GetFlowsRequest::default() };
    let mut fresh = lab.ask(follow.clone()).await;
    let mut with_last = lab.ask(GetFlowsRequest { number: 2, ..follow }).await;
    assert_eq!(port(&with_last.recv().await.unwrap().unwrap()), 2);
    assert_eq!(port(&with_last.recv().await.unwrap().unwrap()), 3);
    lab.write(4..6);
    for answers in [&mut fresh, &mut with_last] {
        assert_eq!(port(&answers.recv().await.unwrap().unwrap()), 4);
        assert_eq!(port(&answers.recv().await.unwrap().unwrap()), 5);
    }
}

#[tokio::test]
async fn who_is_overtaken_hears_how_many_are_lost() {
    let mut lab = Lab::new(7);
    let request = GetFlowsRequest { follow: true, ..GetFlowsRequest::default() };
    let mut answers = lab.ask(request).await;
    // The reader has its place.
    tokio::time::sleep(Duration::from_millis(20)).await;
    lab.write(1..31);
    let mut heard = Vec::new();
    for _ in 0..8 {
        heard.push(port(&answers.recv().await.unwrap().unwrap()));
    }
    assert_eq!(heard, [100_023, 24, 25, 26, 27, 28, 29, 30]);
    // What the kernel had no room for passes every filter.
    lab.tap.take(&Event::Lost { cpu: 1, count: 5 }, now());
    lab.tap.flush(now() + SECOND);
    let none = FlowFilter { source_port: vec!["65000".into()], ..FlowFilter::default() };
    let filtered = GetFlowsRequest { whitelist: vec![none], ..GetFlowsRequest::default() };
    assert_eq!(lab.all(filtered).await, [100_005]);
}

#[tokio::test]
async fn nobody_waits_for_who_never_reads_and_places_are_bounded() {
    let mut lab = Lab::new(255);
    lab.write(1..200);
    let mut places = Vec::new();
    for _ in 0..STREAMS_MAX {
        places.push(lab.ask(GetFlowsRequest::default()).await);
    }
    let status = lab.refused(GetFlowsRequest::default()).await;
    assert_eq!(status.code(), tonic::Code::ResourceExhausted);
    // One goes, another comes, and is served although the others read nothing.
    drop(places.pop());
    while lab.observer.streams().available_permits() == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(lab.all(GetFlowsRequest::default()).await.len(), 199);
}

#[tokio::test]
async fn events_of_the_agent_are_read_alike() {
    let mut lab = Lab::new(7);
    for kind in 1..11 {
        lab.tap.agent(AgentEvent { kind, notification: None }, kind as u64 * SECOND);
    }
    lab.tap.flush(now());
    let ask = async |request: GetEventsRequest| {
        let mut answers = agent_events(Arc::clone(&lab.observer), request).unwrap();
        let mut kinds = Vec::new();
        while let Some(answer) = answers.recv().await {
            let response = GetAgentEventsResponse::decode(&*answer.unwrap()).unwrap();
            kinds.push(response.agent_event.unwrap().kind);
        }
        kinds
    };
    let request = GetEventsRequest::default;
    assert_eq!(ask(request()).await, [4, 5, 6, 7, 8, 9, 10]);
    assert_eq!(ask(GetEventsRequest { number: 2, ..request() }).await, [9, 10]);
    assert_eq!(ask(GetEventsRequest { number: 2, first: true, ..request() }).await, [4, 5]);
    let span = GetEventsRequest { since: at(6), until: at(8), ..request() };
    assert_eq!(ask(span).await, [6, 7, 8]);
}

#[test]
fn a_life_begins_with_what_nobody_saw() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("flows");
    let (mut writer, _) = ring::open(&path, 7).unwrap();
    writer.record(5 * SECOND, 0, 0, &[]);
    drop(writer);
    let (writer, _) = ring::open(&path, 7).unwrap();
    let ring = Arc::clone(writer.ring());
    let events = Arc::new(Mutex::new(AgentEvents::new(1)));
    let (_tap, _news) = Tap::new(writer, Vec::new(), Duration::from_secs(1), events);
    let expected = Content::Lost { source: 1, count: 0, first: 5 * SECOND };
    assert_eq!(ring.get(1).unwrap().content, expected);
}
