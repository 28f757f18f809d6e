//! What is known of Nodes and of the agents there, and which mark a Node gets next.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use k8s_openapi::api::core::v1::{Node, Pod, Taint};
use serde_json::json;

use super::PodLabels;
use crate::{
    cluster::publish::{is_up_since, network_condition, says_up},
    host::{Pauses, Time},
    model::ApiObject,
    mutants::{Mutant, mutated},
    operator::{
        news::{FollowedKind, KindStanding},
        resources::{LIVING, pods},
    },
    ports::{Object, ObjectKey, Resource, Verb},
};

/// How soon after a mark the same one is made again that somebody undid.
const AGAIN: Pauses =
    Pauses::Doubling { first: Duration::from_secs(5), most: Duration::from_secs(300) };
/// Who undoes a mark so long after it was made does not do so again and again.
const QUIET: Duration = Duration::from_secs(900);

/// Which marks Nodes get, and by which pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarkSettings {
    /// Namespace of the agents' pods.
    pub namespace: String,
    /// Labels of the agents' pods.
    pub labels: PodLabels,
    /// Key of the taint.
    pub taint: String,
    /// The taint is removed where an agent is ready.
    pub removes_taint: bool,
    /// The taint is set where agents are, and none is ready.
    pub sets_taint: bool,
    /// The condition is written where an agent is ready.
    pub says_up: bool,
}

impl MarkSettings {
    /// Whether there is anything to do.
    pub(in crate::operator) fn marks(&self) -> bool {
        self.removes_taint || self.sets_taint || self.says_up
    }

    /// Pods of agents, as the server is asked for them.
    pub(in crate::operator) fn agent_pods(&self) -> Resource {
        Resource {
            fields: Some(format!("metadata.namespace={},{LIVING}", self.namespace)),
            labels: Some(self.labels.to_string()),
            ..pods()
        }
    }

    /// The agent that this pod is, if it is one and is scheduled.
    fn agent(&self, key: &ObjectKey, object: &ApiObject) -> Option<ScheduledAgent> {
        let ApiObject::Pod(pod) = object else { return None };
        let nothing = BTreeMap::new();
        let labels = pod.metadata.labels.as_ref().unwrap_or(&nothing);
        let is_agent = key.namespace == self.namespace && self.labels.hold(labels);
        is_agent.then(|| ScheduledAgent::read(pod)).flatten()
    }
}

/// What a Node is marked with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::operator) enum NodeMark {
    /// The taint goes.
    Untaint,
    /// The condition says that the network is up.
    SayUp,
    /// The taint comes.
    Taint,
}

/// A mark that the server was asked about.
pub(in crate::operator) struct AskedMark {
    /// The Node's name.
    pub(in crate::operator) name: String,
    pub(in crate::operator) mark: NodeMark,
    /// The Node's version when it was asked for.
    pub(in crate::operator) version: String,
}

/// What is to be done with a Node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextMark {
    Nothing,
    Make(NodeMark),
    /// Somebody undid it: it is made again after so long.
    Later(NodeMark, Duration),
}

/// What a look at the pod says by which a Node is marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Looked {
    /// It is as it was known.
    Holds,
    /// It is otherwise, which is not known yet.
    Unseen,
    /// The Node changed meanwhile.
    Changed,
}

/// The pod of an agent.
#[derive(Debug)]
struct ScheduledAgent {
    node: String,
    /// It is ready, and is not to end.
    is_ready: bool,
}

/// A mark that was made: how often since nobody undid it for long, and when last.
#[derive(Clone, Copy, Debug)]
struct MarkMade {
    times: u32,
    at: Time,
}

#[derive(Debug, Default)]
enum NodePhase {
    #[default]
    Open,
    /// The server is asked for the pod by which it is marked; this version was seen before.
    Looking(String),
    /// The server is asked to change this version.
    Writing(String),
    /// It did, and the new version was not seen yet.
    Written,
    /// That mark is not made until the pause of that number is over.
    Pausing(NodeMark, u64),
}

#[derive(Debug)]
struct MarkableNode {
    uid: String,
    version: String,
    taints: Vec<Taint>,
    is_up: bool,
    phase: NodePhase,
    made: BTreeMap<NodeMark, MarkMade>,
}

/// Nodes, and the agents on them.
#[derive(Debug, Default)]
pub(super) struct KnownAgents {
    standings: BTreeMap<FollowedKind, KindStanding>,
    pods: BTreeMap<ObjectKey, ScheduledAgent>,
    of_node: BTreeMap<String, BTreeSet<ObjectKey>>,
    nodes: BTreeMap<String, MarkableNode>,
    /// Counts pauses.
    pauses: u64,
}

impl KnownAgents {
    pub(super) fn set_standing(&mut self, of: FollowedKind, standing: KindStanding) {
        self.standings.insert(of, standing);
    }

    /// Whether all Nodes and all agents are known: one alone says nothing of a Node that has two.
    pub(super) fn is_whole(&self) -> bool {
        let is_known = |of| self.standings.get(&of) == Some(&KindStanding::Followed);
        let all = [FollowedKind::Nodes, FollowedKind::AgentPods];
        all.into_iter().all(is_known)
    }

    /// A pod is so now, or is gone; which Nodes that concerns.
    pub(super) fn set_pod(
        &mut self,
        key: ObjectKey,
        value: Option<&ApiObject>,
        settings: &MarkSettings,
    ) -> Vec<String> {
        let agent = value.and_then(|value| settings.agent(&key, value));
        let before = self.pods.get(&key).map(|agent| agent.node.clone());
        let concerned: BTreeSet<String> =
            before.iter().chain(agent.as_ref().map(|agent| &agent.node)).cloned().collect();
        let was_ready: Vec<_> = concerned.iter().map(|node| self.ready(node)).collect();
        self.pods.remove(&key);
        if let Some(node) = &before
            && let Some(there) = self.of_node.get_mut(node)
        {
            there.remove(&key);
            if there.is_empty() {
                self.of_node.remove(node);
            }
        }
        if let Some(agent) = agent {
            self.of_node.entry(agent.node.clone()).or_default().insert(key.clone());
            self.pods.insert(key, agent);
        }
        for (node, was_ready) in concerned.iter().zip(was_ready) {
            self.turned(node, was_ready);
        }
        concerned.into_iter().collect()
    }

    /// What is asked for anew is done at once, whoever undid what was asked for before.
    fn turned(&mut self, name: &str, was_ready: Option<bool>) {
        let is_ready = self.ready(name);
        let Some(node) = self.nodes.get_mut(name).filter(|_| is_ready != was_ready) else { return };
        node.made.clear();
        if matches!(node.phase, NodePhase::Pausing(..)) {
            node.phase = NodePhase::Open;
        }
    }

    /// A Node is so now, or is gone.
    pub(super) fn set_node(&mut self, name: &str, value: Option<&ApiObject>) {
        let Some(ApiObject::Node(value)) = value else {
            self.nodes.remove(name);
            return;
        };
        let mut node = MarkableNode::read(value);
        if let Some(before) = self.nodes.remove(name).filter(|before| before.uid == node.uid) {
            node.made = before.made;
            node.phase = match before.phase {
                NodePhase::Written => NodePhase::Open,
                other => other,
            };
        }
        self.nodes.insert(name.to_owned(), node);
    }

    /// Whether an agent is ready there; none if there is no agent.
    fn ready(&self, node: &str) -> Option<bool> {
        let there = self.of_node.get(node)?;
        Some(there.iter().any(|key| self.pods.get(key).is_some_and(|pod| pod.is_ready)))
    }

    /// On how many Nodes an agent is ready, and on how many none of those that are there.
    pub(super) fn counts(&self) -> (usize, usize) {
        let ready = self.of_node.keys().filter(|node| self.ready(node) == Some(true)).count();
        (ready, self.of_node.len() - ready)
    }

    /// What is to be done with that Node.
    pub(super) fn next(&self, name: &str, settings: &MarkSettings, now: Time) -> NextMark {
        let (Some(node), Some(is_ready)) = (self.nodes.get(name), self.ready(name)) else {
            return NextMark::Nothing;
        };
        let is_tainted = node.is_tainted(&settings.taint);
        let mark = match is_ready {
            true if settings.removes_taint && is_tainted => NodeMark::Untaint,
            true if settings.says_up && !node.is_up => NodeMark::SayUp,
            false if settings.sets_taint && !is_tainted => NodeMark::Taint,
            _ => return NextMark::Nothing,
        };
        match &node.phase {
            NodePhase::Open => {}
            NodePhase::Pausing(paused, _) if *paused != mark => {}
            _ => return NextMark::Nothing,
        }
        let left = node.made.get(&mark).map_or(Duration::ZERO, |made| {
            AGAIN.after(made.times).saturating_sub(now.since(made.at))
        });
        match left.is_zero() {
            true => NextMark::Make(mark),
            false => NextMark::Later(mark, left),
        }
    }

    /// The pod by which that Node is marked, which is asked for from now on, and the Node's version.
    pub(super) fn look(&mut self, name: &str, mark: NodeMark) -> Option<(ObjectKey, String)> {
        let is_ready = mark != NodeMark::Taint;
        let of = |key: &&ObjectKey| self.pods.get(key).is_some_and(|it| it.is_ready == is_ready);
        let pod = self.of_node.get(name)?.iter().find(of)?.clone();
        let node = self.nodes.get_mut(name)?;
        node.phase = NodePhase::Looking(node.version.clone());
        Some((pod, node.version.clone()))
    }

    /// That is the pod as it is. What is known of a Node and of the pods there may be of two Nodes, one after
    /// the other of one name: so this was asked for when the Node was known.
    pub(super) fn looked(
        &mut self,
        asked: &AskedMark,
        pod: &Object,
        settings: &MarkSettings,
    ) -> Looked {
        let Some(node) = self.waits_for(asked) else { return Looked::Changed };
        if asked.version != node.version {
            return Looked::Changed;
        }
        let is_ready = asked.mark != NodeMark::Taint;
        let agent = settings.agent(&pod.key, &pod.value);
        match agent.is_some_and(|agent| agent.node == asked.name && agent.is_ready == is_ready) {
            true => Looked::Holds,
            false => Looked::Unseen,
        }
    }

    /// The Node that waits for an answer about that, and waits no longer. An answer about another one of
    /// its name, or about what was asked before, is nobody's.
    fn waits_for(&mut self, asked: &AskedMark) -> Option<&mut MarkableNode> {
        let node = self.nodes.get_mut(&asked.name)?;
        let (NodePhase::Looking(version) | NodePhase::Writing(version)) = &node.phase else {
            return None;
        };
        if *version != asked.version {
            return None;
        }
        node.phase = NodePhase::Open;
        Some(node)
    }

    /// That Node is left alone with that mark, until [`KnownAgents::paused`] is told this number.
    pub(super) fn pause(&mut self, name: &str, mark: NodeMark) -> u64 {
        self.pauses += 1;
        if let Some(node) = self.nodes.get_mut(name) {
            node.phase = NodePhase::Pausing(mark, self.pauses);
        }
        self.pauses
    }

    pub(super) fn paused(&mut self, name: &str, number: u64) {
        if let Some(node) = self.nodes.get_mut(name)
            && matches!(node.phase, NodePhase::Pausing(_, paused) if paused == number)
        {
            node.phase = NodePhase::Open;
        }
    }

    /// What is written to make that mark, which is under way from now on.
    pub(super) fn begin(
        &mut self,
        name: &str,
        mark: NodeMark,
        settings: &MarkSettings,
        now: &str,
    ) -> Option<(Verb, String)> {
        let node = self.nodes.get_mut(name)?;
        node.phase = NodePhase::Writing(node.version.clone());
        let version = node.version.clone();
        let metadata = match mutated(Mutant::MarksUnversioned) {
            true => json!({}),
            false => json!({ "resourceVersion": node.version }),
        };
        let mut taints = node.taints.clone();
        match mark {
            NodeMark::Untaint => taints.retain(|taint| taint.key != settings.taint),
            NodeMark::Taint => {
                let (key, effect) = (settings.taint.clone(), "NoSchedule".to_owned());
                taints.push(Taint { key, effect, ..Taint::default() });
            }
            NodeMark::SayUp => {
                let conditions = json!({ "conditions": [is_up_since(now)] });
                let status = json!({ "metadata": metadata, "status": conditions });
                return Some((Verb::Status(status), version));
            }
        }
        let patch = json!({ "metadata": metadata, "spec": { "taints": taints } });
        Some((Verb::Merge(patch), version))
    }

    /// That mark was made; how often somebody undid it before, one time soon after the other.
    pub(super) fn made(&mut self, asked: &AskedMark, now: Time) -> u32 {
        let Some(node) = self.waits_for(asked) else { return 0 };
        if asked.version == node.version {
            node.phase = NodePhase::Written;
        }
        let made = node.made.entry(asked.mark).or_insert(MarkMade { times: 0, at: now });
        if now.since(made.at) >= QUIET {
            made.times = 0;
        }
        *made = MarkMade { times: made.times + 1, at: now };
        made.times - 1
    }

    /// The server has another version: whether that was seen by now.
    pub(super) fn refused(&mut self, asked: &AskedMark) -> bool {
        let Some(node) = self.waits_for(asked) else { return false };
        let is_seen = asked.version != node.version;
        if !is_seen {
            node.phase = NodePhase::Written;
        }
        is_seen
    }

    /// Nothing was written; whether the Node is still the one that was to be.
    pub(super) fn failed(&mut self, asked: &AskedMark) -> bool {
        self.waits_for(asked).is_some()
    }
}

impl ScheduledAgent {
    /// One that is not scheduled says nothing of any Node.
    fn read(pod: &Pod) -> Option<Self> {
        let node = pod.spec.as_ref()?.node_name.as_ref().filter(|name| !name.is_empty())?;
        let conditions = pod.status.iter().filter_map(|status| status.conditions.as_ref());
        let is_ready = conditions.flatten().any(|it| it.type_ == "Ready" && it.status == "True");
        let ends = pod.metadata.deletion_timestamp.is_some();
        Some(Self { node: node.to_owned(), is_ready: is_ready && !ends })
    }
}

impl MarkableNode {
    fn read(node: &Node) -> Self {
        let spec = node.spec.as_ref();
        Self {
            uid: node.metadata.uid.clone().unwrap_or_default(),
            version: node.metadata.resource_version.clone().unwrap_or_default(),
            taints: spec.and_then(|spec| spec.taints.clone()).unwrap_or_default(),
            is_up: says_up(network_condition(node)),
            phase: NodePhase::default(),
            made: BTreeMap::new(),
        }
    }

    fn is_tainted(&self, key: &str) -> bool {
        self.taints.iter().any(|taint| taint.key == key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Readership;

    fn settings() -> MarkSettings {
        MarkSettings {
            namespace: "kube-system".to_owned(),
            labels: "k8s-app=volvox".parse().unwrap(),
            taint: "not-ready".to_owned(),
            removes_taint: true,
            sets_taint: false,
            says_up: false,
        }
    }

    fn agent(ready: bool) -> Object {
        let key = ObjectKey { namespace: "kube-system".to_owned(), name: "a".to_owned() };
        let status = if ready { "True" } else { "False" };
        let value = json!({
            "metadata": { "labels": { "k8s-app": "volvox" } },
            "spec": { "nodeName": "n1" },
            "status": { "conditions": [{ "type": "Ready", "status": status }] },
        });
        let read = Readership::OperatorByLabels;
        let value = ApiObject::of_server("Pod", "v1", &value.to_string(), read).unwrap();
        Object { key, value }
    }

    fn node(version: &str) -> ApiObject {
        let node = json!({
            "metadata": { "uid": format!("uid-{version}"), "resourceVersion": version },
            "spec": { "taints": [{ "key": "not-ready" }] },
        });
        ApiObject::of_server("Node", "v1", &node.to_string(), Readership::Operator).unwrap()
    }

    /// A Node with a ready agent.
    fn known() -> KnownAgents {
        let mut known = KnownAgents::default();
        known.set_node("n1", Some(&node("1")));
        let Object { key, value } = agent(true);
        known.set_pod(key, Some(&value), &settings());
        known
    }

    #[test]
    fn an_answer_about_a_node_before_of_that_name_is_nobody_s() {
        let (mut known, settings) = (known(), settings());
        let look = |known: &mut KnownAgents| {
            let (_, version) = known.look("n1", NodeMark::Untaint).unwrap();
            AskedMark { name: "n1".to_owned(), mark: NodeMark::Untaint, version }
        };
        let first = look(&mut known);
        known.set_node("n1", None);
        known.set_node("n1", Some(&node("2")));
        let second = look(&mut known);
        assert_eq!(known.looked(&first, &agent(true), &settings), Looked::Changed);
        assert!(!known.failed(&first), "nor does its failure matter");
        assert_eq!(known.looked(&second, &agent(true), &settings), Looked::Holds);
    }

    #[test]
    fn a_pause_ends_by_its_own_timer_alone() {
        let (mut known, settings) = (known(), settings());
        let next = |known: &KnownAgents| known.next("n1", &settings, Time(0));
        let first = known.pause("n1", NodeMark::Untaint);
        for ready in [false, true] {
            let Object { key, value } = agent(ready);
            known.set_pod(key, Some(&value), &settings);
        }
        assert_eq!(next(&known), NextMark::Make(NodeMark::Untaint), "it is asked for anew");
        let second = known.pause("n1", NodeMark::Untaint);
        known.paused("n1", first);
        assert_eq!(next(&known), NextMark::Nothing);
        known.paused("n1", second);
        assert_eq!(next(&known), NextMark::Make(NodeMark::Untaint));
    }
}
