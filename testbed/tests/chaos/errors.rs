//! Tests: what is wrong in a file is named with its line, its column, and what to do.

use volvox_testbed::chaos::History;

/// Line, column and words of everything that is wrong.
fn wrong(text: &str) -> Vec<((usize, usize), String)> {
    let complaints = History::read("bad.yaml", text).expect_err("something is wrong");
    for complaint in &complaints {
        let (line, column) = complaint.place;
        let shown = complaint.to_string();
        assert!(shown.starts_with(&format!("bad.yaml:{line}:{column}: ")), "{shown}");
    }
    complaints.into_iter().map(|it| (it.place, it.what)).collect()
}

/// A history of these lines below one that says what it is about.
fn history(lines: &str) -> String {
    format!("about: x\n{lines}")
}

#[test]
fn each_mistake_has_a_place_and_a_remedy() {
    let pods = "pods:\n  web: {app: web}\n  db: {app: db}\n";
    let mistakes: &[(&str, (usize, usize), &str)] = &[
        // Words.
        ("stepps: []\nsteps: []\n", (2, 1), "\"stepps\" is not a word here: did you mean steps?"),
        ("steps: [kil]\n", (2, 9), "did you mean kill?"),
        ("steps: [{kil: {}}]\n", (2, 10), "did you mean kill?"),
        ("steps:\n- wait: redy\n", (3, 9), "did you mean ready?"),
        ("steps: [create]\n", (2, 9), "create wants to know more"),
        ("steps: [{stop: now}]\n", (2, 16), "stands alone"),
        ("steps: [{kill: , start: }]\n", (2, 9), "one word at a time"),
        ("nodes: [a]\nsteps: []\n", (2, 1), "several nodes are not possible yet: write node"),
        ("steps: [{fault: {dsik: full}}]\n", (2, 18), "did you mean disk?"),
        // Values.
        ("steps: [{sleep: -2s}]\n", (2, 17), "\"-2s\" is negative: no time passes backwards"),
        ("steps: [{sleep: 2 hours}]\n", (2, 17), "write a number with ms, s, m or h"),
        ("steps: [{repeat: {times: 0, steps: []}}]\n", (2, 26), "take 1 to 10000"),
        ("steps: []\nexpect: {lost: -1}\n", (3, 16), "a number that is not negative, or any"),
        ("steps: []\nexpect: {guarantees: [6]}\n", (3, 23), "nothing measures guarantee 6"),
        ("steps: kill\n", (2, 8), "a list: a line with - for each"),
        ("steps: []\npods: {a/b/c: {}}\n", (3, 15), "the name of a pod"),
        (
            "steps: []\nmanifests: [{apiVersion: v1, kind: Service}]\n",
            (3, 13),
            "the manifest has no metadata",
        ),
        // What contradicts.
        ("steps: [{delete: wbe}]\n", (2, 18), "there is no pod wbe at this step"),
        ("steps: [start]\n", (2, 9), "an agent runs already"),
        ("steps: [kill, kill]\n", (2, 15), "no agent runs at this step"),
        ("steps: [kill, {wait: ready}]\n", (2, 22), "start one first"),
        ("steps: [{wait: dead}]\n", (2, 16), "nothing kills the agent"),
        ("steps: [{kill: {nth: 3}}]\n", (2, 16), "when? Say one of before"),
        ("steps: [{kill: {before: bpf, after: 1s}}]\n", (2, 16), "contradict each other"),
        (
            "steps: [{restart: {killed: {before: bpf, nth: 1, every: 2}}}]\n",
            (2, 28),
            "nth and every",
        ),
        ("steps: [{fault: {etcd: killed}}]\n", (2, 17), "write servers: [etcd]"),
        ("steps: [{fault: {api-server: busy}}]\n", (2, 17), "write servers: [api-server]"),
        ("steps: [{fault: {containerd: busy}}]\n", (2, 30), "\"busy\" is not known here"),
        ("steps: [{fault: {memory: 3}}]\n", (2, 26), "write a number with kB or MB, or well"),
        ("steps: [{fault: {memory: 3MB}}]\n", (2, 17), "has its memory already: kill it first"),
        ("steps: [{fault: {row-added: lxc}}]\n", (2, 17), "kill it first"),
        ("steps: [kill, {crash: ipam}]\n", (2, 23), "start one first"),
        ("steps: [{kill: {messages: 3, before: bpf}}]\n", (2, 16), "contradict each other"),
        ("steps: [{cancel: {pod: a}}]\n", (2, 18), "when? Say one of after, within"),
        ("steps: [{fault: {clock: 1h}}]\n", (2, 25), "is not known here"),
        ("steps: [{fault: {clock: {ahead: 1h, back: 1h}}}]\n", (2, 25), "contradict each other"),
        ("steps: [kill, {fault: {threads: taken}}]\n", (2, 23), "start one first"),
        (
            "steps: [{fault: {disk: failing}}, {fault: {disk: well}}]\n",
            (2, 43),
            "has files of the disk that failed: kill it first",
        ),
        (
            "steps: [{fault: {disk: slow}}, {kill: {before: bpf}}]\n",
            (2, 32),
            "write fault: {disk: well} before this",
        ),
        (
            "servers: [api-server]\nsteps: [{fault: {api-server: killed}}, {create: {pod: a}}]\n",
            (3, 40),
            "write fault: {api-server: well} before this",
        ),
    ];
    for (lines, place, what) in mistakes {
        let found = wrong(&history(lines));
        assert_eq!(found.len(), 1, "{lines}: {found:?}");
        assert_eq!(found[0].0, *place, "{lines}: {}", found[0].1);
        assert!(found[0].1.contains(what), "{lines}: {}", found[0].1);
    }
    let with_pods: &[(&str, (usize, usize), &str)] = &[
        ("steps: [{delete: wbe}]\n", (5, 18), "did you mean web?"),
        ("steps: [{create: {pod: web}}]\n", (5, 24), "pod web is there already"),
        ("steps: [{delete: service/web}]\n", (5, 18), "there is no service/web at this step"),
        (
            "steps: []\ntraffic: [{from: db, to: web, kind: tcp, expected: denied}]\n",
            (6, 11),
            "write connect",
        ),
        (
            "traffic: [{from: db, to: web, kind: udp}]\nsteps: [{delete: web}]\n",
            (6, 18),
            "write expected: any there",
        ),
        (
            "traffic: [{from: db, to: service/web, kind: udp}]\nsteps: []\n",
            (5, 26),
            "there is no service web at this step",
        ),
        (
            "steps: [{fault: {interface-removed: web}}, {wait: ready}]\n",
            (5, 51),
            "web has no interface",
        ),
        (
            "steps: [{repeat: {times: 2, steps: [{create: {pod: a}}]}}]\n",
            (5, 52),
            "pod a is there already",
        ),
    ];
    for (lines, place, what) in with_pods {
        let found = wrong(&history(&format!("{pods}{lines}")));
        assert_eq!(found.len(), 1, "{lines}: {found:?}");
        assert_eq!(found[0].0, *place, "{lines}: {}", found[0].1);
        assert!(found[0].1.contains(what), "{lines}: {}", found[0].1);
    }
}

#[test]
fn a_pod_twice_is_named() {
    let found = wrong("about: x\npods:\n  web: {app: web}\n  web: {app: db}\nsteps: []\n");
    assert_eq!(found[0].0, (4, 3), "{found:?}");
    assert!(found[0].1.contains("\"web\" is there twice"), "{found:?}");
}

#[test]
fn all_mistakes_are_told_at_once_in_the_order_of_the_file() {
    let found = wrong("abuot: x\nsteps:\n- kil\n- {sleep: soon}\n");
    let places: Vec<_> = found.iter().map(|(place, _)| *place).collect();
    assert_eq!(places, [(1, 1), (1, 1), (3, 3), (4, 11)], "{found:?}");
}

#[test]
fn what_is_no_yaml_is_refused() {
    for text in ["a: [1\n", "\u{0}", "a: 1\n---\nb: 2\n", "", "[]", "about: *nobody\n"] {
        let found = wrong(text);
        assert!(!found[0].1.is_empty(), "{text:?}");
    }
    // Deeper than anybody writes.
    wrong(&format!("about: {}{}\n", "[".repeat(500), "]".repeat(500)));
}
