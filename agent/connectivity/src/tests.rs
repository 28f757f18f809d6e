//! Runs against a server that keeps objects: what is made, refused, taken over and removed.

use std::{collections::BTreeMap, time::Duration};

use serde_json::{Value, json};
use tokio::time::timeout;

use super::*;
use crate::{
    claim::{Claim, Pace},
    fake::Fake,
    judge::{Check, Want},
    objects::{MANAGED_BY, MANAGER, PORT},
    probe::{Protocol, Tally, Target, Watched},
    scenarios::Stage,
};

const PACE: Pace = Pace {
    beat: Duration::from_millis(10),
    watched: Duration::from_millis(100),
    pause: Duration::from_millis(20),
    going: Duration::from_millis(300),
};
const MAIN: &str = "/api/v1/namespaces/test";
const OTHER: &str = "/api/v1/namespaces/test-other";

fn options() -> Options {
    Options {
        namespace: "test".to_owned(),
        tests: Vec::new(),
        image: Some("volvox-agent:1".to_owned()),
        timeout: Duration::from_millis(300),
        single_node: false,
        nodes: Vec::new(),
        skip: Vec::new(),
        external: None,
        restart_agents: false,
        keep: false,
    }
}

fn node(fake: &Fake, name: &str, ready: &str) {
    let conditions = json!([{ "type": "Ready", "status": ready, "message": "no network" }]);
    let object = json!({ "metadata": { "name": name }, "status": { "conditions": conditions } });
    fake.put(&format!("/api/v1/nodes/{name}"), object);
}

/// A cluster in which pods can be made, and never start.
fn cluster() -> Fake {
    let fake = Fake::default();
    node(&fake, "n1", "True");
    node(&fake, "n2", "True");
    for namespace in ["test", "test-other"] {
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/default");
        fake.put(&path, json!({ "metadata": { "name": "default" } }));
    }
    fake
}

async fn ran(fake: &Fake, options: &Options) -> (Report, ConnectivityError, String) {
    let (mut report, mut said) = (Report::default(), String::new());
    let mut say = |line: &str| said.push_str(&format!("{line}\n"));
    let error = run::with(&fake.api(), options, &mut report, &mut say).await.unwrap_err();
    (report, error, said)
}

#[tokio::test]
async fn what_is_asked_wrongly_is_refused_before_the_cluster_is_asked() {
    let fake = Fake::default();
    for (change, words) in [
        (Options { namespace: "Test".to_owned(), ..options() }, "--namespace"),
        (Options { namespace: "a".repeat(58), ..options() }, "at most 57"),
        (Options { tests: vec!["nothing".to_owned()], ..options() }, "no test matches"),
        (Options { external: Some("example.org".to_owned()), ..options() }, "HOST:PORT"),
        (Options { nodes: vec!["a".to_owned(); 3], ..options() }, "two nodes"),
    ] {
        let (_, error, said) = ran(&fake, &change).await;
        assert!(matches!(error, ConnectivityError::Usage(_)), "{error}");
        assert!(error.to_string().contains(words), "{error}");
        assert_eq!(said, "");
    }
}

#[tokio::test]
async fn a_cluster_that_cannot_be_tried_is_named_and_nothing_is_made() {
    let fake = Fake::default();
    let (_, error, _) = ran(&fake, &Options { image: None, ..options() }).await;
    assert!(error.to_string().contains("--image"), "{error}");
    node(&fake, "n1", "False");
    let (_, error, _) = ran(&fake, &options()).await;
    for words in ["no node is ready", "node n1: not ready: no network"] {
        assert!(error.to_string().contains(words), "{words}: {error}");
    }
    assert_eq!(fake.get(MAIN), None);
    node(&fake, "n1", "True");
    fake.refuse("/api/v1/namespaces", 403, "user \"eve\" cannot create resource \"namespaces\"");
    let (_, error, _) = ran(&fake, &options()).await;
    assert!(error.is_unasked() && error.to_string().contains("pods/exec"), "{error}");
}

#[tokio::test]
async fn pods_that_do_not_start_are_named_and_everything_is_removed() {
    let fake = cluster();
    let (report, error, said) = ran(&fake, &options()).await;
    let error = error.to_string();
    for words in ["6 of 9 pods of the test do not get ready", "node n1: pod client-a is not ready"]
    {
        assert!(error.contains(words), "{words}: {error}");
    }
    assert_eq!(report.nodes, ["n1", "n2"]);
    assert!(said.contains("0 of 9 pods are ready"), "{said}");
    for name in ["test", "test-other"] {
        assert!(said.contains(&format!("namespace {name} is removed")), "{said}");
    }
    assert_eq!((fake.get(MAIN), fake.get(OTHER)), (None, None));
    assert_eq!(fake.get(&format!("{MAIN}/pods/client-a")), None);
}

#[tokio::test]
async fn what_is_kept_is_taken_over_by_the_next_run() {
    let fake = cluster();
    let (_, _, said) = ran(&fake, &Options { keep: true, ..options() }).await;
    assert!(said.contains("are left: the next run removes them"), "{said}");
    let first = fake.get(MAIN).unwrap()["metadata"]["uid"].take();
    assert!(fake.get(&format!("{MAIN}/pods/client-a")).is_some());

    let mut said = String::new();
    let mut say = |line: &str| said.push_str(&format!("{line}\n"));
    let mut claim = Claim::new(&fake.api(), PACE);
    claim.take("test", "me", &mut say).await.unwrap();
    let second = fake.get(MAIN).unwrap()["metadata"]["uid"].take();
    assert_ne!(first, second);
    assert_eq!(fake.get(&format!("{MAIN}/pods/client-a")), None);
    claim.release(&mut say).await.unwrap();
    assert!(said.contains("is left of a run by") && said.contains("that has ended"), "{said}");
    assert_eq!((fake.get(MAIN), fake.get(OTHER)), (None, None));
}

#[tokio::test]
async fn a_second_run_is_refused_while_the_first_lives() {
    let fake = cluster();
    let (mut first, mut second) = (Claim::new(&fake.api(), PACE), Claim::new(&fake.api(), PACE));
    first.take("test", "host one, process 7", &mut |_| ()).await.unwrap();
    let error = second.take("test", "host two", &mut |_| ()).await.unwrap_err().to_string();
    assert!(error.contains("a test runs in namespace test (host one, process 7)"), "{error}");
    // Who was refused removes nothing.
    second.release(&mut |_| ()).await.unwrap();
    assert!(fake.get(MAIN).is_some() && fake.get(OTHER).is_some());
    // One that was killed renews no more.
    drop(first);
    second.take("test", "host two", &mut |_| ()).await.unwrap();
    assert_eq!(fake.get(MAIN).unwrap()["metadata"]["annotations"]["volvox.io/run-by"], "host two");
}

#[tokio::test]
async fn a_namespace_of_somebody_else_is_left() {
    for (path, name) in [(MAIN, "test"), (OTHER, "test-other")] {
        let fake = cluster();
        let theirs = json!({ "metadata": { "name": name, "uid": "theirs" } });
        fake.put(path, theirs);
        let (_, error, _) = ran(&fake, &options()).await;
        let error = error.to_string();
        assert!(error.contains(&format!("namespace {name} is there and not of")), "{error}");
        assert_eq!(fake.get(path).unwrap()["metadata"]["uid"], "theirs");
        let own = if path == MAIN { OTHER } else { MAIN };
        assert_eq!(fake.get(own), None, "what was made before is removed");
    }
}

#[tokio::test]
async fn a_namespace_that_does_not_go_is_named() {
    let fake = cluster();
    let going = json!({ "metadata": {
        "name": "test", "labels": { MANAGED_BY: MANAGER }, "deletionTimestamp": "2026-01-01T00:00:00Z",
    } });
    fake.put(MAIN, going);
    let mut claim = Claim::new(&fake.api(), PACE);
    let taken =
        timeout(Duration::from_secs(5), claim.take("test", "me", &mut |_| ())).await.unwrap();
    assert!(taken.unwrap_err().to_string().contains("does not go: kubectl get namespace test"));
}

#[tokio::test]
async fn policies_are_exactly_those_of_the_stage() {
    let fake = cluster();
    let world = scenarios::tests::world(&["n1", "n2"], false);
    let api = fake.api();
    let mut asking = asking::Asking::new(&api, &world);
    let at = |kind: &str| format!("/apis/{kind}/tried");
    let (plain, cilium) = (
        at("networking.k8s.io/v1/namespaces/test/networkpolicies"),
        at("cilium.io/v2/namespaces/test/ciliumnetworkpolicies"),
    );
    let policies = |name: &str| -> Vec<Value> {
        let all = scenarios::all();
        let scenario = all.iter().find(|it| it.name == name).unwrap();
        let scenarios::Plan::Stages(stages) = (scenario.plan)(&world) else { panic!("{name}") };
        stages[0].policies.clone()
    };
    asking.put(&policies("policy-ingress-label")).await.unwrap();
    assert_eq!(fake.get(&plain).unwrap()["metadata"]["labels"][MANAGED_BY], MANAGER);
    asking.put(&policies("cilium-policy-deny")).await.unwrap();
    assert!(fake.get(&plain).is_none() && fake.get(&cilium).is_some());
    asking.put(&[]).await.unwrap();
    assert!(fake.get(&cilium).is_none());

    // A policy that the server refuses fails the test, and not the run.
    fake.refuse("networkpolicies", 422, "spec is invalid");
    let stage = Stage { policies: policies("policy-namespace"), ..Stage::default() };
    let mut report = TestReport::new("x", "y");
    asking.stage(&stage, &mut report).await.unwrap();
    assert_eq!((report.failed, report.failures.len()), (1, 1));
    assert!(report.failures[0].reason.contains("spec is invalid"), "{:?}", report.failures);
}

#[tokio::test]
async fn a_pod_that_cannot_be_asked_fails_its_probes() {
    let fake = cluster();
    let world = scenarios::tests::world(&["n1", "n2"], false);
    let api = fake.api();
    let mut asking = asking::Asking::new(&api, &world);
    let target = Target::at(Protocol::Tcp, world.addresses("server-b")[0], PORT);
    let checks = vec![
        Check::answered("client-a", "server-b", target.clone()),
        Check::denied("denied-a", "server-b", target),
    ];
    let stage = Stage { checks, ..Stage::default() };
    let mut report = TestReport::new("x", "y");
    asking.stage(&stage, &mut report).await.unwrap();
    // Silence of a pod is no proof that a policy denies.
    assert_eq!((report.probes, report.failed), (2, 2), "{report:?}");
    let failure = &report.failures[0];
    assert!(failure.reason.contains("test/client-a"), "{failure:?}");
    let hint = "kubectl -n kube-system exec volvox-n2 -c agent -- volvox why pod-name:test/server-b --dropped \
                --from 10.0.1.1 --port 8080";
    assert_eq!(failure.hint, hint);
}

#[test]
fn what_a_watch_lost_is_counted_with_what_happened_then() {
    let world = scenarios::tests::world(&["n1", "n2"], false);
    let target = Target::at(Protocol::Udp, world.addresses("server-b")[0], PORT);
    let mut checks = vec![Check::answered("client-a", "server-b", target.clone())];
    checks.push(Check { want: Want::Denied, ..checks[0].clone() });
    let phases =
        [(0, "before".to_owned()), (3_000, "the agent of node n1 was replaced".to_owned())];
    let tally = |sent, lost| Tally {
        sent,
        answered: sent - lost,
        lost,
        longest_micros: 1_500,
        losses: if lost > 0 { vec![(4_200, "timed out".to_owned())] } else { Vec::new() },
    };
    let judged = |outcome: Result<Watched, String>| {
        let mut report = TestReport::new("x", "y");
        restart::tally(&world, &checks, &[0, 1], outcome, &phases, &mut report);
        report
    };
    let watched = |tallies| Watched { at: 9_000, ended: true, tallies };
    let good = judged(Ok(watched(vec![tally(100, 0), tally(50, 50)])));
    assert_eq!((good.probes, good.failed, good.failures.len()), (150, 0, 0), "{good:?}");
    assert_eq!(good.notes, ["from client-a the longest answer took 1.5 ms"]);
    let bad = judged(Ok(watched(vec![tally(100, 3), tally(50, 48)])));
    assert_eq!((bad.failed, bad.failures.len()), (5, 2));
    let reason = "3 of 100 were lost, the first when 4.2 s had passed (the agent of node n1 was replaced): \
                  timed out";
    assert_eq!(bad.failures[0].reason, reason);
    assert_eq!(bad.failures[1].reason, "2 of 50 were answered and should be denied");
    // Nothing is taken for good of which nothing is known.
    for outcome in [
        Err("the connection ended".to_owned()),
        Ok(Watched { ended: false, ..watched(vec![tally(100, 0), tally(50, 50)]) }),
        Ok(watched(vec![tally(0, 0), tally(0, 0)])),
    ] {
        assert!(judged(outcome.clone()).failed > 0, "{outcome:?}");
    }
}

#[test]
fn names_of_tests_and_their_meaning_are_listed() {
    let all: BTreeMap<_, _> = names().into_iter().collect();
    assert!(all.len() > 30 && all["dns"].contains("resolve"), "{all:?}");
}
