//! Agents on the nodes of the simulated cluster, and the marks that Nodes get by them.
//!
//! Pods of agents come, get ready, fail, end and go. People taint Nodes for reasons of their own. Agents
//! remove the taint themselves, at times.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use volvox_actors_simulated::{operator::MarkSettings, testing::MemoryCluster};

use crate::random::Random;

const TAINT: &str = "node.cilium.io/agent-not-ready";
const NAMESPACE: &str = "kube-system";
/// Who puts the taint back is answered more and more seldom: so often it is still seen in time.
const PUT_BACK_MAX: usize = 2;

/// What operators are asked for: to mark Nodes, or not to.
pub(super) fn marks(marks: bool) -> Option<MarkSettings> {
    Some(MarkSettings {
        namespace: NAMESPACE.to_owned(),
        labels: "k8s-app in (cilium,volvox)".parse().ok()?,
        taint: TAINT.to_owned(),
        removes_taint: marks,
        sets_taint: marks,
        says_up: marks,
    })
}

/// What the cluster's people and agents know of a Node.
#[derive(Default)]
struct MarkedTruth {
    /// Pods of agents there, and whether each is ready and stays.
    agents: BTreeMap<String, bool>,
    /// Taints of other people.
    theirs: BTreeSet<String>,
    /// It had the taint when it joined.
    joined_tainted: bool,
    /// An agent was ready at some time.
    was_ready: bool,
    /// There was a time at which agents were there, and none of them was ready.
    was_unready: bool,
    /// How often somebody put the taint back, or took it away, against what an operator wants.
    put_back: usize,
}

impl MarkedTruth {
    fn is_ready(&self) -> bool {
        self.agents.values().any(|is_ready| *is_ready)
    }

    fn note(&mut self) {
        self.was_ready |= self.is_ready();
        self.was_unready |= !self.agents.is_empty() && !self.is_ready();
    }
}

/// Nodes, and the agents on them.
#[derive(Default)]
pub(super) struct AgentsTruth {
    nodes: BTreeMap<String, MarkedTruth>,
    made: usize,
}

fn taints(node: &Value) -> BTreeSet<String> {
    let all = node["spec"]["taints"].as_array().into_iter().flatten();
    all.filter_map(|it| it["key"].as_str().map(str::to_owned)).collect()
}

fn is_said_up(node: &Value) -> bool {
    let mut all = node["status"]["conditions"].as_array().into_iter().flatten();
    all.any(|it| it["type"] == "NetworkUnavailable" && it["reason"] == "CiliumIsUp")
}

fn taint(key: &str) -> Value {
    json!({ "key": key, "effect": "NoSchedule" })
}

fn pod(name: &str, node: &str, is_ready: bool, ends: bool) -> Value {
    let mut pod = json!({
        "kind": "Pod",
        "metadata": {
            "name": name, "namespace": NAMESPACE, "uid": format!("uid-{name}"),
            "labels": { "k8s-app": "volvox" },
        },
        "spec": { "nodeName": node },
        "status": {
            "phase": "Running",
            "conditions": [{ "type": "Ready", "status": if is_ready { "True" } else { "False" } }],
        },
    });
    if ends {
        pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    }
    pod
}

impl AgentsTruth {
    /// What a Node that joins says: it may be tainted from its first moment, as its kubelet was told.
    pub(super) fn join(&mut self, random: &mut Random, name: &str) -> Value {
        let joined_tainted = random.roll(2) == 0;
        let truth = MarkedTruth { joined_tainted, ..MarkedTruth::default() };
        self.nodes.insert(name.to_owned(), truth);
        match joined_tainted {
            true => json!({ "spec": { "taints": [taint(TAINT)] } }),
            false => json!({ "spec": {} }),
        }
    }

    /// A Node goes, with the pods there.
    pub(super) fn leave(&mut self, cluster: &MemoryCluster, name: &str) {
        for agent in self.nodes.remove(name).unwrap_or_default().agents.keys() {
            cluster.delete(&pod(agent, name, false, true));
        }
    }

    fn some_node(&self, random: &mut Random) -> Option<String> {
        let all: Vec<String> = self.nodes.keys().cloned().collect();
        (!all.is_empty()).then(|| random.one_of(&all))
    }

    /// Something happens to the agents of a node.
    pub(super) fn act(&mut self, cluster: &MemoryCluster, random: &mut Random) -> String {
        let Some(node) = self.some_node(random) else { return "there are no agents".to_owned() };
        self.made += 1;
        let made = self.made;
        let Some(truth) = self.nodes.get_mut(&node) else { return String::new() };
        let there: Vec<String> = truth.agents.keys().cloned().collect();
        let what = match (random.roll(5), there.is_empty()) {
            // Its successor is there already, and sorts behind it.
            (0, _) => {
                let (old, new) = (format!("a-{node}-{made}"), format!("b-{node}-{made}"));
                for (name, stays) in [(&new, true), (&old, false)] {
                    cluster.apply(pod(name, &node, true, !stays));
                    truth.agents.insert(name.clone(), stays);
                }
                format!("{new} is ready on {node}, and {old} is to end")
            }
            (1, _) | (_, true) => {
                let (name, is_ready) = (format!("a-{node}-{made}"), random.roll(2) == 0);
                cluster.apply(pod(&name, &node, is_ready, false));
                truth.agents.insert(name.clone(), is_ready);
                format!("{name} starts on {node}, ready: {is_ready}")
            }
            (2, _) => {
                let name = random.one_of(&there);
                cluster.delete(&pod(&name, &node, false, true));
                truth.agents.remove(&name);
                format!("{name} goes")
            }
            (_, _) => {
                let (name, is_ready) = (random.one_of(&there), random.roll(3) > 0);
                cluster.apply(pod(&name, &node, is_ready, false));
                truth.agents.insert(name.clone(), is_ready);
                format!("{name} on {node} is ready: {is_ready}")
            }
        };
        truth.note();
        what
    }

    /// Somebody changes a Node's taints.
    pub(super) fn taint(&mut self, cluster: &MemoryCluster, random: &mut Random) -> String {
        let Some(node) = self.some_node(random) else { return "there is no Node".to_owned() };
        let Some(mut object) = cluster.object("Node", "", &node) else { return String::new() };
        let Some(truth) = self.nodes.get_mut(&node) else { return String::new() };
        let all = object["spec"]["taints"].as_array().cloned().unwrap_or_default();
        let without = |key: &str| all.iter().filter(|it| it["key"] != key).cloned().collect();
        let (what, taints): (_, Vec<Value>) = match random.roll(6) {
            0 | 1 => {
                let key = format!("theirs-{}", random.roll(3));
                truth.theirs.insert(key.clone());
                (format!("{node} is tainted with {key}"), {
                    let mut all: Vec<Value> = without(&key);
                    all.push(taint(&key));
                    all
                })
            }
            2 | 3 => {
                let key = format!("theirs-{}", random.roll(3));
                truth.theirs.remove(&key);
                (format!("{node} is not tainted with {key}"), without(&key))
            }
            4 if truth.is_ready() => {
                (format!("the agent takes the taint off {node}"), without(TAINT))
            }
            _ if truth.put_back < PUT_BACK_MAX && truth.was_ready && truth.was_unready => {
                truth.put_back += 1;
                let mut all: Vec<Value> = without(TAINT);
                all.push(taint(TAINT));
                (format!("somebody taints {node} as if its agent were not ready"), all)
            }
            _ => return "nobody taints a Node".to_owned(),
        };
        object["spec"]["taints"] = taints.into();
        cluster.apply(object);
        what
    }

    /// The first thing that is wrong.
    pub(super) fn complaint(&self, cluster: &MemoryCluster) -> Option<String> {
        self.nodes.iter().find_map(|(name, truth)| {
            let node = cluster.object("Node", "", name)?;
            let mut there = taints(&node);
            let is_tainted = there.remove(TAINT);
            if there != truth.theirs {
                let theirs = &truth.theirs;
                return Some(format!("Node {name} has taints {there:?}, and {theirs:?} were set"));
            }
            if !truth.was_ready && is_said_up(&node) {
                return Some(format!("Node {name} has a network, and its agent was never ready"));
            }
            if !truth.was_ready && truth.joined_tainted && !is_tainted {
                return Some(format!("Node {name} lost its taint, and its agent was never ready"));
            }
            let is_wrong = !truth.was_unready && !truth.joined_tainted && is_tainted;
            is_wrong.then(|| format!("Node {name} was tainted, and an agent was always ready"))
        })
    }

    /// What was not done although nothing stood in the way.
    pub(super) fn undone(&self, cluster: &MemoryCluster) -> Option<String> {
        self.nodes.iter().find_map(|(name, truth)| {
            let node = cluster.object("Node", "", name).unwrap_or_default();
            let is_tainted = taints(&node).contains(TAINT);
            match (truth.agents.is_empty(), truth.is_ready()) {
                (true, _) => None,
                (_, true) if is_tainted => {
                    Some(format!("Node {name} is tainted, and its agent ready"))
                }
                (_, true) if !is_said_up(&node) => {
                    Some(format!("Node {name} is not said to have a network"))
                }
                (_, false) if !is_tainted => {
                    Some(format!("Node {name} is not tainted, and no agent is ready"))
                }
                _ => None,
            }
        })
    }
}
