//! Marks of Nodes: by which agents, how often, and what of others stays.

use super::*;

pub(super) const TAINT: &str = "node.cilium.io/agent-not-ready";
const SECOND: Duration = Duration::from_secs(1);

/// A Node with the taint of its kubelet, and another one.
fn tainted(name: &str) -> Value {
    json!({
        "kind": "Node", "metadata": { "name": name, "uid": format!("node-{name}") },
        "spec": { "taints": [
            { "key": TAINT, "effect": "NoExecute" }, { "key": "theirs", "effect": "NoSchedule" },
        ] },
        "status": { "conditions": [
            { "type": "Ready", "status": "True" },
            { "type": "NetworkUnavailable", "status": "True", "reason": "NoRouteCreated" },
        ] },
    })
}

fn agent(name: &str, node: &str, is_ready: bool) -> Value {
    json!({
        "kind": "Pod",
        "metadata": { "name": name, "namespace": "kube-system", "labels": { "k8s-app": "volvox" } },
        "spec": { "nodeName": node },
        "status": { "conditions": [
            { "type": "ContainersReady", "status": "True" },
            { "type": "Ready", "status": if is_ready { "True" } else { "False" } },
        ] },
    })
}

fn taints(cluster: &MemoryCluster, name: &str) -> Vec<String> {
    let node = cluster.object("Node", "", name).unwrap();
    let taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
    taints.iter().map(|it| it["key"].as_str().unwrap().to_owned()).collect()
}

/// What a Node says of its network.
fn reason(cluster: &MemoryCluster, name: &str) -> String {
    let node = cluster.object("Node", "", name).unwrap();
    let conditions = node["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let network = conditions.iter().find(|it| it["type"] == "NetworkUnavailable").cloned();
    network.unwrap_or_default()["reason"].as_str().unwrap_or_default().to_owned()
}

/// Writes of Nodes since this was asked last.
fn writes(cluster: &MemoryCluster) -> usize {
    cluster.take_writes().iter().filter(|write| write.resource.kind == "Node").count()
}

fn view(operator: &TestOperator) -> MarksView {
    let seen = Rc::new(RefCell::new(None));
    let heard = Rc::clone(&seen);
    operator.supervisor.show(OperatorQuestions {
        marks: Reply::to(move |view| *heard.borrow_mut() = Some(view)),
        ..unasked()
    });
    operator.universe.settle();
    let view = seen.borrow_mut().take();
    view.unwrap().unwrap()
}

#[test]
fn a_node_is_marked_by_the_agents_that_are_there() {
    let cluster = cluster();
    let nodes = ["ready", "unready", "ending", "two", "other", "elsewhere", "none"];
    nodes.iter().for_each(|name| cluster.apply(tainted(name)));
    let mut ending = agent("a3", "ending", true);
    ending["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    let mut old = agent("a4", "two", true);
    old["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    let mut other = agent("a6", "other", true);
    other["metadata"]["labels"]["k8s-app"] = "web".into();
    let mut elsewhere = agent("a7", "elsewhere", true);
    elsewhere["metadata"]["namespace"] = "shop".into();
    for pod in [
        agent("a1", "ready", true),
        agent("a2", "unready", false),
        ending,
        old,
        agent("a5", "two", true),
        other,
        elsewhere,
        agent("pending", "", false),
    ] {
        cluster.apply(pod);
    }
    let operator = operator(&cluster, "a");
    operator.pass(SECOND);
    for name in ["ready", "two"] {
        assert_eq!(taints(&cluster, name), ["theirs"], "{name}");
        assert_eq!(reason(&cluster, name), "CiliumIsUp", "{name}");
    }
    for name in ["unready", "ending", "other", "elsewhere", "none"] {
        assert_eq!(taints(&cluster, name), [TAINT, "theirs"], "{name}");
        assert_eq!(reason(&cluster, name), "NoRouteCreated", "{name}");
    }
    assert_eq!(writes(&cluster), 4);
    let said = view(&operator);
    assert_eq!((said.ready, said.unready, said.untainted, said.said_up), (2, 2, 2, 2));
    // A cluster in which nothing changes is not written to.
    operator.pass(60 * MINUTE);
    assert_eq!((writes(&cluster), operator.ended()), (0, None));
}

#[test]
fn a_node_whose_agent_is_not_ready_is_tainted_where_that_is_asked_for() {
    for sets in [true, false] {
        let cluster = cluster();
        cluster.apply(node("n1"));
        cluster.apply(agent("a", "n1", true));
        let operator = operator_with(&cluster, None, "a", |it| it.marks.sets_taint = sets);
        operator.pass(SECOND);
        assert_eq!(reason(&cluster, "n1"), "CiliumIsUp");
        cluster.apply(agent("a", "n1", false));
        operator.pass(SECOND);
        let expected: &[&str] = if sets { &[TAINT] } else { &[] };
        assert_eq!(taints(&cluster, "n1"), expected);
        assert_eq!(reason(&cluster, "n1"), "CiliumIsUp", "what was said of the network stays");
        cluster.apply(agent("a", "n1", true));
        operator.pass(SECOND);
        assert_eq!(taints(&cluster, "n1"), [""; 0]);
        assert_eq!(view(&operator).tainted, u64::from(sets));
        // One that is gone says nothing of its Node.
        cluster.delete(&agent("a", "n1", true));
        operator.pass(SECOND);
        assert_eq!(taints(&cluster, "n1"), [""; 0]);
    }
}

#[test]
fn who_is_asked_for_nothing_follows_no_agents() {
    let cluster = cluster();
    cluster.apply(tainted("n1"));
    cluster.apply(agent("a", "n1", true));
    let off = |it: &mut OperatorSettings| {
        (it.marks.removes_taint, it.marks.sets_taint, it.marks.says_up) = (false, false, false);
    };
    let operator = operator_with(&cluster, None, "a", off);
    operator.pass(MINUTE);
    assert!(operator.leads());
    assert_eq!((writes(&cluster), taints(&cluster, "n1").len()), (0, 2));
}

/// A cloud's controller that has another opinion.
#[test]
fn who_undoes_a_mark_again_and_again_is_answered_more_and_more_seldom() {
    let cluster = cluster();
    cluster.apply(tainted("n1"));
    cluster.apply(agent("a", "n1", true));
    let operator = operator(&cluster, "a");
    let mut undone = 0;
    for _ in 0..3600 {
        operator.pass(SECOND);
        if taints(&cluster, "n1") == ["theirs"] {
            undone += 1;
            cluster.apply(tainted("n1"));
        }
    }
    // 5, 10, 20, 40, 80, 160 s between two, and then five minutes.
    assert!((14..=20).contains(&undone), "{undone}");
    assert!(writes(&cluster) <= 2 * 20, "of both marks");
    // What is asked for anew is done at once.
    cluster.apply(agent("a", "n1", false));
    operator.pass(SECOND);
    cluster.apply(agent("a", "n1", true));
    cluster.apply(tainted("n1"));
    operator.pass(SECOND);
    operator.pass(SECOND);
    assert_eq!(taints(&cluster, "n1"), ["theirs"]);
}

/// The agent takes the taint away itself, while its pod is not ready yet.
#[test]
fn an_agent_that_removes_the_taint_itself_meets_no_endless_dispute() {
    let cluster = cluster();
    cluster.apply(node("n1"));
    cluster.apply(agent("a", "n1", false));
    let operator = operator(&cluster, "a");
    for _ in 0..60 {
        operator.pass(SECOND);
        cluster.apply(node("n1"));
    }
    let tries = writes(&cluster);
    assert!((3..=6).contains(&tries), "{tries}");
    cluster.apply(agent("a", "n1", true));
    operator.pass(SECOND);
    assert_eq!((taints(&cluster, "n1"), reason(&cluster, "n1")), (vec![], "CiliumIsUp".to_owned()));
}

#[test]
fn what_others_change_between_a_look_and_a_write_stays() {
    let cluster = cluster();
    cluster.apply(tainted("n1"));
    cluster.apply(agent("a", "n1", true));
    cluster.be_slow();
    cluster.write_late();
    let operator = operator(&cluster, "a");
    let mut changed = false;
    for _ in 0..2000 {
        operator.universe.settle();
        // The write of the Node is the only one under way that waits for more than the Lease.
        let waits = operator.universe.host.with_waits(|waits| {
            waits.iter().filter(|it| it.why.contains("Node n1 to be marked")).count()
        });
        if waits > 0 && !std::mem::replace(&mut changed, true) {
            let mut node = tainted("n1");
            node["spec"]["taints"].as_array_mut().unwrap().push(json!({ "key": "new" }));
            cluster.apply(node);
        }
        match cluster.jobs() {
            0 => operator.pass(SECOND / 10),
            _ => cluster.step(0),
        }
    }
    assert!(changed);
    assert_eq!(taints(&cluster, "n1"), ["theirs", "new"]);
    assert_eq!(reason(&cluster, "n1"), "CiliumIsUp");
}

/// A Node of the name of one that went, whose agent is not gone as far as is known.
#[test]
fn a_node_is_not_marked_by_an_agent_of_the_node_before() {
    let cluster = cluster();
    cluster.apply(tainted("n1"));
    cluster.apply(agent("a", "n1", true));
    let operator = operator(&cluster, "a");
    operator.pass(SECOND);
    cluster.delete(&tainted("n1"));
    let mut next = tainted("n1");
    next["metadata"]["uid"] = "another".into();
    cluster.be_slow();
    cluster.apply(next);
    cluster.delete(&agent("a", "n1", true));
    for _ in 0..100 {
        operator.universe.settle();
        // What Nodes are comes first, what pods are only when nothing else is left.
        match cluster.jobs() {
            0 => operator.pass(SECOND / 10),
            jobs => cluster.step(jobs - 1),
        }
        assert_eq!(taints(&cluster, "n1"), [TAINT, "theirs"]);
        assert_eq!(reason(&cluster, "n1"), "NoRouteCreated");
    }
}

#[test]
fn few_are_written_at_a_time_and_a_server_that_fails_is_left_alone() {
    let cluster = cluster();
    for number in 0..40 {
        cluster.apply(tainted(&format!("n{number}")));
        cluster.apply(agent(&format!("a{number}"), &format!("n{number}"), true));
    }
    let refused = ClusterError::Refused("cannot patch nodes".to_owned());
    cluster.fail_writes("Node", Some(refused));
    let operator = operator(&cluster, "a");
    operator.pass(10 * MINUTE);
    let tries = writes(&cluster);
    assert!((20..=400).contains(&tries), "ten at a time, and pauses: {tries}");
    let said = view(&operator);
    assert!(said.error.unwrap().contains("cannot patch nodes") && said.failed == tries as u64);
    cluster.fail_writes("Node", None);
    cluster.be_slow();
    let mut most = 0;
    for _ in 0..5000 {
        operator.universe.settle();
        let under_way = operator.universe.host.with_waits(|waits| {
            waits
                .iter()
                .filter(|it| it.why.contains("to be marked") && it.why.starts_with("Node n"))
                .count()
        });
        most = most.max(under_way);
        match cluster.jobs() {
            0 => operator.pass(SECOND),
            _ => cluster.step(0),
        }
    }
    assert_eq!(most, 10);
    for number in 0..40 {
        assert_eq!(taints(&cluster, &format!("n{number}")), ["theirs"], "{number}");
    }
}

#[test]
fn one_node_that_is_not_taken_does_not_hold_up_others() {
    let cluster = cluster();
    cluster.apply(tainted("n1"));
    cluster.apply(agent("a1", "n1", true));
    cluster.fail_writes("Node", Some(ClusterError::Invalid("no".to_owned())));
    let operator = operator(&cluster, "a");
    operator.pass(10 * MINUTE);
    let tries = writes(&cluster);
    assert!((20..=40).contains(&tries), "half a minute between two of {tries}");
    cluster.fail_writes("Node", None);
    cluster.apply(tainted("n2"));
    cluster.apply(agent("a2", "n2", true));
    operator.pass(SECOND);
    assert_eq!(taints(&cluster, "n2"), ["theirs"]);
    operator.pass(MINUTE);
    assert_eq!(taints(&cluster, "n1"), ["theirs"]);
}
