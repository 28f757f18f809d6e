//! Tests: one recorded life, told as lines, as causes and waits, and as Perfetto and OTLP want it.

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::AtomicU64},
};

use serde_json::Value;
use volvox_actors::host::{
    About, CellId, EnvelopeId, Header, KernelStep, Outcome, Record, Recorder, RootId, Time, Wait,
    WaitId, Whom,
    flight::{Birth, Flight, Writer, read},
};

use super::*;

const ENDPOINT: CellId = CellId(40);
const POLICY: CellId = CellId(3);

/// A file changes; the policy actor tells endpoint 12, which asks for its rows, flips its map, and
/// then waits for a permit until the record ends.
pub(crate) fn flight() -> Flight {
    let memory: Arc<[AtomicU64]> = (0..1 << 17).map(|_| AtomicU64::new(0)).collect();
    let birth = Birth {
        life: 3,
        pid: 77,
        version: "0.1.0".into(),
        boot_id: "b".into(),
        started: Time(1_000),
        started_wall: 1_700_000_000_000_000_000,
    };
    let mut writer = Writer::new(Arc::clone(&memory), &birth).unwrap();
    let at = Time(2_000_000);
    let message = |id: u64, kind, from, to, cause: u64, ms: u64| {
        let header = Header {
            id: EnvelopeId(id),
            kind,
            from,
            to,
            cause: EnvelopeId(cause),
            root: RootId(5),
            enqueued: Time(ms * 1_000_000),
        };
        let (started, ended) = (Time(ms * 1_000_000 + 50_000), Time(ms * 1_000_000 + 90_000));
        Record::Message { header, started, ended, outcome: Outcome::Handled }
    };
    let wait = |id, whom| Wait {
        id: WaitId(id),
        who: Some(ENDPOINT),
        whom,
        why: "a permit to build".into(),
        since: Time(6_060_000),
        until: Time(66_060_000),
    };
    let (rows, permit) = (wait(1, Whom::Cell(POLICY)), wait(2, Whom::Cell(CellId(8))));
    let records = [
        Record::Phase { name: "read state directory", started: Time(900), ended: Time(1_500) },
        Record::Spawned { cell: POLICY, name: "policy", parent: None, at },
        Record::Spawned { cell: CellId(8), name: "build-queue", parent: None, at },
        Record::Spawned { cell: ENDPOINT, name: "endpoint 12", parent: Some(POLICY), at },
        Record::Root { root: RootId(5), what: "manifests: web.yaml", at: Time(4_000_000) },
        message(9, "Manifests", None, POLICY, 0, 4),
        Record::State {
            cell: ENDPOINT,
            from: "ready",
            to: "waiting-to-regenerate",
            why: "policy revision 7",
            at: Time(6_060_000),
        },
        Record::WaitBegan { wait: &rows },
        Record::WaitEnded { wait: &rows, answered: true, at: Time(6_070_000) },
        Record::WaitBegan { wait: &permit },
        message(10, "Regenerate", Some(POLICY), ENDPOINT, 9, 6),
        Record::Kernel(KernelStep {
            cell: Some(ENDPOINT),
            cause: EnvelopeId(10),
            root: RootId(5),
            op: "FlipPolicy",
            about: About::Slot(24),
            write: true,
            submitted: Time(6_080_000),
            started: Time(6_100_000),
            ended: Time(14_100_000),
            failed: Some("the map is full"),
        }),
        message(11, "Dump", None, POLICY, 0, 20),
    ];
    records.into_iter().for_each(|record| writer.record(record));
    read(&memory[..], 0).unwrap()
}

#[test]
fn records_are_told_in_words() {
    let flight = flight();
    let story = Story::new(&flight);
    let events = Selection { endpoint: Some(12), ..Selection::default() }.of(&story, story.end());
    let reported: Vec<_> =
        lines(&story, &events).into_iter().map(|it| format!("{} {}", it.actor, it.what)).collect();
    assert_eq!(
        reported,
        [
            "endpoint 12 begins, made by policy",
            "endpoint 12 ready -> waiting-to-regenerate: policy revision 7",
            "endpoint 12 waited 10 us for policy: a permit to build",
            "endpoint 12 Regenerate from policy: waited 50 us, took 40 us",
            "endpoint 12 kernel FlipPolicy slot 24: waited 20 us, took 8.0 ms, \
             FAILED: the map is full",
        ]
    );
    assert_eq!(lines(&story, &events)[1].time, "2023-11-14T22:13:20.006059");
}

#[test]
fn a_selection_is_by_root_and_time() {
    let flight = flight();
    let story = Story::new(&flight);
    let count = |selection: Selection| selection.of(&story, story.end()).len();
    assert_eq!(count(Selection::default()), flight.events.len());
    // The outside event, three messages and a step in the kernel.
    assert_eq!(count(Selection { root: Some(5), ..Selection::default() }), 5);
    let since = Some(std::time::Duration::from_millis(10));
    assert_eq!(count(Selection { since, ..Selection::default() }), 2);
}

#[test]
fn a_regeneration_leads_back_to_the_outside_event() {
    let flight = flight();
    let story = Story::new(&flight);
    let found = story.regenerated(12).unwrap();
    assert_eq!(
        (&*found.why, found.root.as_deref()),
        ("policy revision 7", Some("manifests: web.yaml"))
    );
    let seqs: Vec<_> = found.messages.iter().map(|event| event.seq).collect();
    assert_eq!(seqs, [6, 9]);
    assert_eq!(story.regenerated(13), None);
}

#[test]
fn waits_that_are_open_at_the_end_make_a_chain() {
    let flight = flight();
    let story = Story::new(&flight);
    let chain = story.chain(12);
    assert_eq!(chain.len(), 1);
    assert_eq!((&*chain[0].whom, &*chain[0].why), ("build-queue", "a permit to build"));
    assert_eq!(story.state(12).unwrap().0.as_ref(), "waiting-to-regenerate");
}

/// What Perfetto's importer of Chrome's format asks of a file, and what we promise to be in it.
#[test]
fn perfetto_gets_tracks_slices_and_arrows() {
    let flight = flight();
    let story = Story::new(&flight);
    let events: Vec<_> = flight.events.iter().collect();
    let json = perfetto(&story, &events);
    let all = json["traceEvents"].as_array().unwrap();
    let mut open = BTreeMap::new();
    for event in all {
        let phase = event["ph"].as_str().unwrap();
        assert!(event["pid"].is_u64() && event["tid"].is_u64(), "{event}");
        assert!(event["name"].is_string(), "{event}");
        assert!(phase == "M" || event["ts"].as_f64().unwrap() >= 0.0, "{event}");
        match phase {
            "X" => assert!(event["dur"].as_f64().unwrap() >= 0.0),
            "b" => drop(
                open.insert((event["cat"].to_string(), event["id"].clone().to_string()), event),
            ),
            "e" => {
                let key = (event["cat"].to_string(), event["id"].to_string());
                let begun = open.remove(&key).unwrap();
                assert_eq!((&begun["name"], &begun["tid"]), (&event["name"], &event["tid"]));
            }
            "M" | "i" | "s" | "f" => {}
            other => panic!("phase {other}"),
        }
    }
    // The permit was never given.
    assert_eq!(open.len(), 1);
    let find = |phase: &str, name: &str| {
        all.iter().find(|it| it["ph"] == phase && it["name"] == name).unwrap_or(&Value::Null)
    };
    let track = |cell: CellId| {
        let named = |it: &&Value| it["name"] == "thread_name" && it["tid"] == cell.0;
        all.iter().find(named).unwrap()["args"]["name"].clone()
    };
    assert_eq!(track(ENDPOINT), "endpoint 12");
    let slice = find("X", "Regenerate");
    assert_eq!((&slice["tid"], &slice["dur"]), (&40.into(), &40.0.into()));
    // The arrow leaves from within the sender's slice, and ends where the receiver's begins.
    let (from, to) = (find("s", "cause"), find("f", "cause"));
    assert_eq!((&from["id"], &to["id"], &to["ts"]), (&10.into(), &10.into(), &slice["ts"]));
    assert_eq!((&from["tid"], &to["tid"]), (&3.into(), &40.into()));
    assert_eq!(find("e", "FlipPolicy")["args"]["failed"], "the map is full");
}

/// The members that `ExportTraceServiceRequest` has in JSON, and the rules for their values.
#[test]
fn otlp_has_a_span_for_each_message_below_its_cause() {
    let flight = flight();
    let story = Story::new(&flight);
    let events: Vec<_> = flight.events.iter().collect();
    let json = otlp(&story, &events);
    let scope = &json["resourceSpans"][0]["scopeSpans"][0];
    assert_eq!(scope["scope"]["name"], "volvox.flight");
    let spans = scope["spans"].as_array().unwrap();
    let mut ids = BTreeMap::new();
    for span in spans {
        let hex = |name: &str, digits: usize| {
            let text = span[name].as_str().unwrap();
            assert!(text.len() == digits && text.bytes().any(|digit| digit != b'0'), "{span}");
            assert!(u128::from_str_radix(text, 16).is_ok());
            text.to_owned()
        };
        let nanos = |name: &str| span[name].as_str().unwrap().parse::<u64>().unwrap();
        assert!(nanos("startTimeUnixNano") <= nanos("endTimeUnixNano"), "{span}");
        assert!((1..=5).contains(&span["kind"].as_u64().unwrap()));
        ids.insert(hex("spanId", 16), (hex("traceId", 32), span));
    }
    assert_eq!(ids.len(), spans.len());
    for (trace, span) in ids.values() {
        if let Some(parent) = span.get("parentSpanId") {
            assert_eq!(&ids[parent.as_str().unwrap()].0, trace, "{span}");
        }
    }
    let parent = |name: &str| {
        let span = spans.iter().find(|span| span["name"] == name).unwrap();
        ids[span["parentSpanId"].as_str().unwrap()].1["name"].clone()
    };
    assert_eq!(parent("endpoint 12 Regenerate"), "policy Manifests");
    assert_eq!(parent("policy Manifests"), "manifests: web.yaml");
    assert_eq!(parent("kernel FlipPolicy"), "endpoint 12 Regenerate");
    let failed = spans.iter().find(|span| span["name"] == "kernel FlipPolicy").unwrap();
    assert_eq!(failed["status"]["code"], 2);
}
