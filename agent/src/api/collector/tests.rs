//! Tests: a probe that hangs is waited for by nobody, and what it said before is stale after a minute.

use std::{fs::OpenOptions, thread};

use axum::{body::Body, http::Method};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::json;
use tokio::sync::oneshot;

use super::*;
use crate::api::{router, tests::node_supervisor::Fixture};

fn found() -> Finding {
    Finding::CniConfig(Status { state: "Ok".to_owned(), msg: String::new() })
}

/// Waits until it holds, however busy the machine is.
async fn wait(what: &str, holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(60), "{what}");
        sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn one_that_does_not_answer_for_long_is_stale_until_it_runs_well_again() {
    const KIND: ProbeKind = ProbeKind::CniConfig;
    let (warned, stale) = (Duration::from_millis(20), Duration::from_millis(40));
    let collector = StatusCollector::limited(Limits { warned, stale });
    let (answer, answered) = oneshot::channel::<()>();
    let begin = || collector.change(KIND, |probe| probe.running = Some((1, Instant::now(), 0)));
    begin();
    let run = async {
        // Whoever hangs says something in the end.
        answered.await.unwrap();
        Ok(found())
    };
    let probe = async {
        let found = collector.watch_over(KIND, run).await;
        assert!(found.is_none(), "what comes so late is not true any more");
        collector.ended(KIND, 1, found);
    };
    let failures = || collector.state().probes[&KIND].failures;
    let look = async {
        wait("it is stale", || failures() == 1).await;
        let stale = collector.findings().stale;
        assert_eq!(stale["cni-config"], "1970-01-01T00:00:00Z");
        sleep(Duration::from_millis(200)).await;
        assert_eq!((collector.findings().stale, failures()), (stale, 1), "it is not begun anew");
        answer.send(()).unwrap();
    };
    tokio::join!(probe, look);
    assert!(collector.findings().stale.is_empty());
    assert!(collector.findings().unrun.contains(&"cni-config"), "it has said nothing yet");
    collector.ended(KIND, 2, Some(Ok(found())));
    assert_eq!(failures(), 0);
    assert_eq!(collector.findings().cni_config.state, "Ok");
    assert!(!collector.findings().unrun.contains(&"cni-config"));
}

#[tokio::test]
async fn who_asks_waits_for_what_hangs_once_and_for_what_is_recent_a_moment() {
    const KIND: ProbeKind = ProbeKind::Ipam;
    let collector = StatusCollector::default();
    let settle = |question| {
        for kind in ProbeKind::ALL.into_iter().filter(|kind| *kind != KIND) {
            collector.change(kind, |probe| probe.answered = Some((question, Instant::now())));
        }
    };
    settle(1);
    // It never answered, and began just now.
    let began = Instant::now() + Duration::from_secs(3600);
    collector.change(KIND, |probe| probe.running = Some((1, began, 0)));
    assert_eq!(collector.awaited(1, began), Some(began + PATIENCE));
    // It has hung for long: nobody waits for it any more.
    let Some(long_ago) = Instant::now().checked_sub(PATIENCE) else { return };
    collector.change(KIND, |probe| probe.running = Some((1, long_ago, 0)));
    assert_eq!(collector.awaited(1, Instant::now()), None);
    // It answered lately, and takes its time.
    let asked = Instant::now() + Duration::from_secs(3600);
    collector.change(KIND, |probe| probe.answered = Some((1, asked)));
    settle(2);
    assert_eq!(collector.awaited(2, asked), Some(asked + MOMENT));
    collector.change(KIND, |probe| probe.answered = Some((2, asked)));
    assert_eq!(collector.awaited(2, asked), None);
}

#[test]
fn actors_that_hang_hold_up_no_answer() {
    let dir = tempfile::tempdir().unwrap();
    let fifo = dir.path().join("fifo");
    mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let api = Fixture::new();
    let body = json!({
        "container-id": "ab01", "container-name": fifo, "addressing": {"ipv4": "10.1.0.9"},
    });
    assert_eq!(api.call(Method::PUT, "/v1/endpoint/97", body.to_string()).status, 201);
    let before = api.get("/v1/healthz").body;
    assert_eq!(before["cilium"]["state"], "Ok", "{before}");
    // Number 97 is built as long as nobody writes there, and no actor answers meanwhile.
    let regenerate = "/v1/volvox/endpoint/97/regenerate";
    thread::scope(|scope| {
        let built =
            scope.spawn(|| api.behind(router).call(Method::POST, regenerate, Body::empty()));
        for _ in 0..20 {
            let asked = std::time::Instant::now();
            let answer = api.get("/v1/healthz");
            // The actors would be waited for a minute.
            assert!(asked.elapsed() < Duration::from_secs(30), "{:?}", asked.elapsed());
            assert_eq!(answer.status, 200, "{answer:?}");
            thread::sleep(Duration::from_millis(200));
        }
        drop(OpenOptions::new().write(true).open(&fifo).unwrap());
        assert_eq!(built.join().unwrap().status, 200);
    });
}
