//! What is known of the cluster's objects, and which of them are left over.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use serde_json::Value;

use crate::{
    host::Time,
    model::ApiObject,
    mutants::{Mutant, mutated},
    operator::news::{FollowedKind, KindStanding},
    ports::ObjectKey,
};

/// Set on an identity that nobody uses, before it is removed.
pub(super) const HEARTBEAT: &str = "io.cilium.heartbeat";
/// Keeps a CiliumNode.
const DO_NOT_COLLECT: &str = "cilium.io/do-not-gc";

/// A kind of which objects are removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::operator) enum Kind {
    Endpoints,
    Identities,
    Nodes,
}

impl Kind {
    pub(super) const ALL: [Self; 3] = [Self::Endpoints, Self::Identities, Self::Nodes];

    pub(super) fn followed(self) -> FollowedKind {
        match self {
            Self::Endpoints => FollowedKind::Endpoints,
            Self::Identities => FollowedKind::Identities,
            Self::Nodes => FollowedKind::CiliumNodes,
        }
    }

    /// All that has to be known to say that one is left over.
    fn needs(self) -> &'static [FollowedKind] {
        match self {
            Self::Endpoints => &[FollowedKind::Endpoints, FollowedKind::Pods],
            Self::Identities => &[FollowedKind::Identities, FollowedKind::Endpoints],
            Self::Nodes => &[FollowedKind::CiliumNodes, FollowedKind::Nodes],
        }
    }
}

/// An object that is left over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Leftover {
    pub(super) kind: Kind,
    pub(super) key: ObjectKey,
    pub(super) uid: String,
    pub(super) version: String,
    /// It is marked first, to go in a later round.
    pub(super) marks: bool,
}

#[derive(Debug)]
struct KnownEndpoint {
    uid: String,
    version: String,
    identity: Option<String>,
    /// It belongs to a pod, or to nobody. What belongs to others is theirs to remove.
    is_of_pod: bool,
    since: Time,
}

#[derive(Debug)]
struct KnownIdentity {
    uid: String,
    version: String,
    is_marked: bool,
    /// When there was the last sign that somebody uses it.
    alive: Time,
}

#[derive(Debug)]
struct KnownNode {
    uid: String,
    version: String,
    is_owned: bool,
    stays: bool,
    /// Since when a round finds it without its Node.
    alone: Option<Time>,
}

/// Objects of the cluster, as far as it matters.
#[derive(Debug, Default)]
pub(super) struct Known {
    standings: BTreeMap<FollowedKind, KindStanding>,
    pods: BTreeSet<ObjectKey>,
    endpoints: BTreeMap<ObjectKey, KnownEndpoint>,
    identities: BTreeMap<String, KnownIdentity>,
    cilium_nodes: BTreeMap<String, KnownNode>,
    nodes: BTreeSet<String>,
}

impl Known {
    pub(super) fn set_standing(&mut self, of: FollowedKind, standing: KindStanding) {
        self.standings.insert(of, standing);
    }

    pub(super) fn counts(&self) -> [usize; 3] {
        [self.endpoints.len(), self.identities.len(), self.cilium_nodes.len()]
    }

    /// An object is so now, or is gone.
    pub(super) fn set(
        &mut self,
        of: FollowedKind,
        key: ObjectKey,
        value: Option<ApiObject>,
        now: Time,
    ) {
        match (of, value) {
            (FollowedKind::Pods, Some(_)) => drop(self.pods.insert(key)),
            (FollowedKind::Pods, None) => drop(self.pods.remove(&key)),
            (FollowedKind::Nodes, Some(_)) => drop(self.nodes.insert(key.name)),
            (FollowedKind::Nodes, None) => drop(self.nodes.remove(&key.name)),
            (FollowedKind::Endpoints, Some(value)) => self.endpoint(key, &value.into_json(), now),
            (FollowedKind::Endpoints, None) => {
                let gone = self.endpoints.remove(&key);
                self.use_of(gone.and_then(|it| it.identity), now);
            }
            (FollowedKind::Identities, Some(value)) => {
                let value = value.into_json();
                let known = KnownIdentity {
                    uid: uid(&value),
                    version: version(&value),
                    is_marked: value["metadata"]["annotations"].get(HEARTBEAT).is_some(),
                    alive: now,
                };
                self.identities.insert(key.name, known);
            }
            (FollowedKind::Identities, None) => drop(self.identities.remove(&key.name)),
            (FollowedKind::CiliumNodes, Some(value)) => {
                self.cilium_node(key.name, &value.into_json())
            }
            (FollowedKind::CiliumNodes, None) => drop(self.cilium_nodes.remove(&key.name)),
            // The former are among the pods as well, the latter belong to nobody.
            (FollowedKind::AgentPods | FollowedKind::PodPools, _) => {}
        }
    }

    fn endpoint(&mut self, key: ObjectKey, value: &Value, now: Time) {
        let owners = value["metadata"]["ownerReferences"].as_array();
        let is_of_pod = owners.is_none_or(|all| all.iter().all(|it| it["kind"] == "Pod"));
        let identity = value["status"]["identity"]["id"].as_u64().map(|id| id.to_string());
        let uid = uid(value);
        let before = self.endpoints.remove(&key);
        let since = before.as_ref().filter(|it| it.uid == uid).map_or(now, |it| it.since);
        let left = before.and_then(|it| it.identity).filter(|id| identity.as_ref() != Some(id));
        self.use_of(left, now);
        let version = version(value);
        self.endpoints.insert(key, KnownEndpoint { uid, version, identity, is_of_pod, since });
    }

    fn cilium_node(&mut self, name: String, value: &Value) {
        let metadata = &value["metadata"];
        let uid = uid(value);
        let before = self.cilium_nodes.get(&name).filter(|it| it.uid == uid);
        let known = KnownNode {
            alone: before.and_then(|it| it.alone),
            version: version(value),
            is_owned: metadata["ownerReferences"].as_array().is_some_and(|all| !all.is_empty()),
            stays: metadata["annotations"][DO_NOT_COLLECT] == "true",
            uid,
        };
        self.cilium_nodes.insert(name, known);
    }

    /// Somebody used it until now.
    fn use_of(&mut self, identity: Option<String>, now: Time) {
        if let Some(known) = identity.and_then(|id| self.identities.get_mut(&id)) {
            known.alive = now;
        }
    }

    /// What is left over of a kind and has been for `age`; nothing unless all that matters is known.
    pub(super) fn leftovers(&mut self, kind: Kind, age: Duration, now: Time) -> Vec<Leftover> {
        let is_known = |of: &FollowedKind| self.standings.get(of) == Some(&KindStanding::Followed);
        if !kind.needs().iter().all(is_known) && !mutated(Mutant::LeftoversUnlisted) {
            return Vec::new();
        }
        match kind {
            Kind::Endpoints => self.endpoints_without_pod(age, now),
            Kind::Identities => self.unused_identities(age, now),
            Kind::Nodes => self.nodes_alone(age, now),
        }
    }

    fn endpoints_without_pod(&self, age: Duration, now: Time) -> Vec<Leftover> {
        let old = self.endpoints.iter().filter(|(_, it)| now.since(it.since) >= age);
        old.filter(|(key, it)| it.is_of_pod && !self.pods.contains(key))
            .map(|(key, it)| Leftover {
                kind: Kind::Endpoints,
                key: key.clone(),
                uid: it.uid.clone(),
                version: it.version.clone(),
                marks: false,
            })
            .collect()
    }

    fn unused_identities(&mut self, age: Duration, now: Time) -> Vec<Leftover> {
        for id in self.endpoints.values().filter_map(|it| it.identity.as_ref()) {
            if let Some(known) = self.identities.get_mut(id) {
                known.alive = now;
            }
        }
        let old = self.identities.iter().filter(|(_, it)| now.since(it.alive) >= age);
        old.map(|(name, it)| Leftover {
            kind: Kind::Identities,
            key: ObjectKey { namespace: String::new(), name: name.clone() },
            uid: it.uid.clone(),
            version: it.version.clone(),
            marks: !it.is_marked && !mutated(Mutant::IdentitiesUnmarked),
        })
        .collect()
    }

    fn nodes_alone(&mut self, age: Duration, now: Time) -> Vec<Leftover> {
        let (mut left, nodes) = (Vec::new(), &self.nodes);
        for (name, it) in &mut self.cilium_nodes {
            let is_alone = !it.is_owned && !it.stays && !nodes.contains(name);
            it.alone = is_alone.then(|| it.alone.unwrap_or(now));
            if it.alone.is_some_and(|since| now.since(since) >= age && since != now) {
                left.push(Leftover {
                    kind: Kind::Nodes,
                    key: ObjectKey { namespace: String::new(), name: name.clone() },
                    uid: it.uid.clone(),
                    version: it.version.clone(),
                    marks: false,
                });
            }
        }
        left
    }
}

fn uid(value: &Value) -> String {
    value["metadata"]["uid"].as_str().unwrap_or_default().to_owned()
}

fn version(value: &Value) -> String {
    value["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned()
}
