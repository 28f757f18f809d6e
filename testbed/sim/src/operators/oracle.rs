//! What operators must never do, and what they have to have done in the end.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use volvox_actors_simulated::{
    ports::{ObjectWrite, Verb},
    testing::MemoryCluster,
};

/// Set on an identity that nobody uses, a round before it is removed.
pub(super) const HEARTBEAT: &str = "io.cilium.heartbeat";

/// What the cluster's people and agents know of it.
#[derive(Default)]
pub(super) struct Truth {
    /// Nodes that are there, with the UID of their CiliumNode.
    pub(super) nodes: BTreeMap<String, String>,
    /// CiliumNodes of which the Node went.
    pub(super) alone: BTreeSet<String>,
    /// Pods that run, and their identity.
    pub(super) pods: BTreeMap<String, u32>,
    /// Nodes get prefixes of pools, which somebody else looks after.
    pub(super) pooled: bool,
    /// What each CiliumNode had of prefixes, by UID.
    given: BTreeMap<String, Vec<String>>,
    /// Identities that somebody marked once.
    marked: BTreeSet<String>,
}

fn texts(value: &Value) -> Vec<String> {
    let all = value.as_array().into_iter().flatten();
    all.filter_map(|it| it.as_str().map(str::to_owned)).collect()
}

impl Truth {
    /// The first thing that is wrong.
    pub(super) fn complaint(&mut self, cluster: &MemoryCluster) -> Option<String> {
        let of_nodes = self.nodes.clone();
        let mut owners: BTreeMap<String, String> = BTreeMap::new();
        for (name, uid) in of_nodes {
            let Some(node) = cluster.object("CiliumNode", "", &name) else {
                return Some(format!("CiliumNode {name} was removed, and its Node is there"));
            };
            let cidrs = texts(&node["spec"]["ipam"]["podCIDRs"]);
            let before = self.given.entry(uid).or_default();
            if let Some(lost) = before.iter().find(|it| !cidrs.contains(it)) {
                return Some(format!("node {name} lost {lost}: it has {cidrs:?}"));
            }
            before.clone_from(&cidrs);
            for cidr in cidrs {
                if let Some(other) = owners.insert(cidr.clone(), name.clone()) {
                    return Some(format!("{cidr} was given to {other} and to {name}"));
                }
            }
        }
        self.pods.iter().find_map(|(pod, identity)| {
            if cluster.object("CiliumEndpoint", "shop", pod).is_none() {
                return Some(format!("CiliumEndpoint {pod} was removed, and its pod runs"));
            }
            let object = cluster.object("CiliumIdentity", "", &identity.to_string());
            object
                .is_none()
                .then(|| format!("identity {identity} was removed, and pod {pod} has it"))
        })
    }

    /// What is wrong with what operators wrote: an agent that takes an identity up has to see before that
    /// it is about to go.
    pub(super) fn complaint_of(&mut self, writes: Vec<ObjectWrite>) -> Option<String> {
        let of_identities = writes.into_iter().filter(|it| it.resource.kind == "CiliumIdentity");
        for ObjectWrite { key, verb, .. } in of_identities {
            match verb {
                Verb::Merge(patch) if patch["metadata"]["annotations"][HEARTBEAT].is_string() => {
                    self.marked.insert(key.name);
                }
                Verb::Delete { .. } if !self.marked.contains(&key.name) => {
                    return Some(format!("identity {} is removed, and was never marked", key.name));
                }
                _ => {}
            }
        }
        None
    }

    /// What was not done although nothing stood in the way.
    pub(super) fn undone(&self, cluster: &MemoryCluster, all_pods: &[String]) -> Option<String> {
        let lacks = |name: &&String| {
            if self.pooled {
                return false;
            }
            let node = cluster.object("CiliumNode", "", name).unwrap_or_default();
            texts(&node["spec"]["ipam"]["podCIDRs"]).len() < 2
        };
        if let Some(name) = self.nodes.keys().find(lacks) {
            return Some(format!("node {name} has no prefixes"));
        }
        let left = |name: &&String| cluster.object("CiliumNode", "", name).is_some();
        if let Some(name) = self.alone.iter().find(left) {
            return Some(format!("CiliumNode {name} is left over"));
        }
        let is_left = |pod: &&String| {
            let there = cluster.object("CiliumEndpoint", "shop", pod).is_some();
            there && !self.pods.contains_key(*pod)
        };
        if let Some(pod) = all_pods.iter().find(is_left) {
            return Some(format!("CiliumEndpoint {pod} is left over"));
        }
        let used: BTreeSet<u32> = self.pods.values().copied().collect();
        let unused = super::world::IDENTITIES.filter(|id| !used.contains(id));
        let mut there =
            unused.filter(|id| cluster.object("CiliumIdentity", "", &id.to_string()).is_some());
        there.next().map(|id| format!("identity {id} is left over"))
    }
}
