//! Tests: histories happen, in memory and to real processes, and end the same.

use std::process::Command;

use volvox_testbed::{
    chaos::{self, Asked, Outcome, Place, Source},
    judge::{Measure, Verdict},
};

fn in_sim(source: &Source) -> anyhow::Result<Vec<Outcome>> {
    let asked = Asked { place: Place::Sim, seed: 1 };
    chaos::histories(std::slice::from_ref(source), asked, |_| ())
}

/// Runs histories as people do, and reads what the program says of each.
fn in_lab(names: &[&str]) -> Vec<Outcome> {
    let output = Command::new(env!("CARGO_BIN_EXE_testbed"))
        .args(["chaos", "run", "--in", "lab", "--json"])
        .args(names)
        // The programs are built: cargo holds a lock that its child would wait for.
        .env_remove("CARGO")
        .output()
        .expect("the program is built");
    let printed = String::from_utf8(output.stdout).expect("it is text");
    let outcomes: Vec<Outcome> = printed
        .lines()
        .map(|line| serde_json::from_str(line).expect("one JSON line each"))
        .collect();
    assert_eq!(outcomes.len(), names.len(), "{}", String::from_utf8_lossy(&output.stderr));
    outcomes
}

#[test]
fn all_that_can_happen_in_memory_ends_well_there() {
    let mut lived = 0;
    for source in chaos::all() {
        if let Ok(outcomes) = in_sim(&source) {
            assert_eq!(outcomes[0].verdict, Verdict::Well, "{:#?}", outcomes[0]);
            lived += 1;
        }
    }
    assert!(lived >= 18, "{lived} histories can happen in memory");
}

/// Of those that both worlds can do, some that differ most: faults of disk, kernel and store, deaths of all kinds.
const BOTH: [&str; 11] = [
    "policy-changes-while-dead",
    "labels-change-as-it-dies",
    "kill-under-traffic",
    "killed-amid-a-commit",
    "record-torn",
    "restores-in-any-order",
    "leases-end-while-cut-off",
    "pods-churn",
    "same-name-another-pod",
    "making-given-up",
    "row-of-nobody",
];

/// Both know the pods of the end, and who reaches whom; a wrong expectation is seen in both.
#[test]
fn what_both_worlds_can_do_ends_the_same() {
    let wrong = std::env::temp_dir().join(format!("volvox-chaos-{}.yaml", std::process::id()));
    let text = chaos::find("labels-change-as-it-dies").expect("it is listed").text;
    let text = text.replace("app: friend}\n  web", "app: foe}\n  web");
    std::fs::write(
        &wrong,
        text.replace("kind: udp}", "kind: connect, port: 81, expected: denied}"),
    )
    .expect("it can be written");
    let wrong = wrong.to_str().expect("it is text").to_owned();
    let changed = std::fs::read_to_string(&wrong).expect("it was written");
    // It is let through whatever the policy says of others.
    std::fs::write(&wrong, changed.replace("app: foe}", "app: friend}")).expect("as before");
    let mut names = vec![&*wrong];
    names.extend(BOTH);
    let mut seen = Vec::new();
    for real in in_lab(&names) {
        let source = if real.history.starts_with("volvox") {
            chaos::find(&wrong).expect("it is there")
        } else {
            chaos::find(&real.history).expect("it is listed")
        };
        let [simulated] = in_sim(&source).expect("it can happen in memory").try_into().unwrap();
        let name = &source.name;
        assert_eq!(real.verdict, simulated.verdict, "{name}: {real:#?} {simulated:#?}");
        assert!(!real.reach.is_empty(), "{name}");
        assert_eq!(real.reach, simulated.reach, "{name}");
        seen.push(real.verdict);
    }
    std::fs::remove_file(&wrong).expect("it is there");
    let well = BOTH.map(|_| Verdict::Well);
    assert_eq!(seen, [&[Verdict::Broken][..], &well].concat());
}

/// Histories of the lab that end well there, each with what was done and found.
fn end_well_in_lab(names: &[&str]) {
    for outcome in in_lab(names) {
        assert_eq!(outcome.verdict, Verdict::Well, "{outcome:#?}");
        assert!(!outcome.steps.is_empty() && !outcome.findings.is_empty(), "{outcome:#?}");
    }
}

#[test]
fn what_only_real_processes_can_do_ends_well() {
    end_well_in_lab(&[
        "backends-change-while-killed",
        "dies-before-every-tenth-call",
        "disk-full",
        "pod-created-while-restoring",
        "pod-deleted-while-dead",
        "state-directory-lost",
        "rows-removed",
        "links-removed",
        "interface-removed",
        "etcd-restored",
        "stands-still",
        "log-full",
        "memory-too-small",
        "descriptors-and-threads",
        "disk-fails",
        "disk-slow",
        "clock-steps",
        "program-in-front",
        "recording-truncated",
    ]);
}

/// Servers, and the way to them: see also `tests/cluster` and `tests/kvstore`.
#[test]
fn whatever_servers_do_nobody_notices() {
    end_well_in_lab(&[
        "api-server-in-trouble",
        "api-server-answers-rubbish",
        "etcd-in-trouble",
        "containerd-away",
        "state-lost-while-api-server-away",
    ]);
}

/// An agent has its routing rules a minute after its start: beside the others, as it mostly waits.
#[test]
fn rules_that_somebody_removes_are_back() {
    end_well_in_lab(&["rules-removed"]);
}

#[test]
fn what_only_the_simulator_can_do_is_refused_by_the_lab() {
    let asked = Asked { place: Place::Lab, seed: 1 };
    for (name, says) in [
        ("dies-at-a-message", "the agent is killed behind 7 messages"),
        ("supervisor-crashes", "the actor endpoints of the agent panics"),
    ] {
        let source = chaos::find(name).expect("it is listed");
        let error = chaos::histories(&[source], asked, |_| ()).expect_err("it is refused");
        let error = error.to_string();
        assert!(error.contains("the lab cannot do this") && error.contains(says), "{error}");
    }
}

/// What packets and numbers do not show: a row of a pod that nothing is sent to is gone in the end.
#[test]
fn what_differs_in_the_end_is_named_with_its_guarantee() {
    let place = std::env::temp_dir().join(format!("volvox-differs-{}.yaml", std::process::id()));
    let text = "about: x\nnode: {flags: {endpoint-bpf-prog-watchdog-interval: 0s}}\n\
        pods: {a: {app: a}, b: {app: b}}\nsteps:\n\
        - fault: {row-removed: {map: lxc, pod: b}}\nexpect: {leaks: any}\n";
    std::fs::write(&place, text).expect("it can be written");
    let [outcome] = in_lab(&[place.to_str().expect("it is text")]).try_into().unwrap();
    std::fs::remove_file(&place).expect("it is there");
    assert_eq!(outcome.verdict, Verdict::Broken, "{outcome:#?}");
    let broken = outcome.findings.iter().filter(|it| it.verdict == Verdict::Broken);
    for finding in broken {
        assert_eq!(finding.measure, Measure::Differences, "{outcome:#?}");
        assert!(
            finding.guarantee.is_some() && finding.detail.contains("cilium_lxc"),
            "{finding:?}"
        );
    }
}
