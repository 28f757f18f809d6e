//! What is there in the cluster, and what this node is.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use ipnet::IpNet;
use k8s_openapi::api::core::v1::Node;
use serde_json::Value;

use super::{
    PublishSettings, Unpublished, endpoint,
    item::Item,
    node::{self, DesiredNodeObject},
};
use crate::{
    endpoints::endpoint::{EndpointSpec, EndpointState, EndpointView},
    model::{ApiObject, EndpointId, Feed},
    node::local_node::{IpamMode, PodCidrs},
    ports::ObjectKey,
};

/// All that the publisher knows.
#[derive(Default)]
pub(super) struct PublishSources {
    /// Kinds of which all objects are known, and whether there can be such objects.
    feeds: BTreeMap<Feed, bool>,
    node: Option<Arc<Node>>,
    cilium_node: Option<Value>,
    /// CiliumEndpoints of all nodes; of those that are others' little is kept.
    cilium_endpoints: BTreeMap<ObjectKey, Value>,
    /// Endpoints of this node that have a pod, and how they were in force last.
    own: BTreeMap<EndpointId, OwnEndpoint>,
    /// Which of them is the pod's: the one that came last.
    pods: BTreeMap<ObjectKey, EndpointId>,
    /// Whether restored endpoints and the node are programmed.
    pub(super) programmed: bool,
    /// Whether all endpoints are known, so that others' CiliumEndpoints may go.
    pub(super) collects: bool,
    /// What was written, and over what, until it is seen there.
    pub(super) reported: BTreeMap<Item, u64>,
}

struct OwnEndpoint {
    pod: ObjectKey,
    in_force: Option<Arc<EndpointView>>,
    /// UID of the pod.
    uid: String,
}

impl PublishSources {
    /// What the cluster says; what is to be looked at by that.
    pub(super) fn objects(
        &mut self,
        feed: Feed,
        objects: Vec<(ObjectKey, Option<ApiObject>)>,
        defined: bool,
        settings: &PublishSettings,
    ) -> BTreeSet<Item> {
        let before = self.feeds.insert(feed, defined);
        let is_own = |key: &ObjectKey| key.name == settings.node_name;
        let mut due = BTreeSet::new();
        for (key, value) in objects {
            match feed {
                Feed::Node if is_own(&key) => match value {
                    Some(node) => self.node = node.into_node().or(self.node.take()),
                    None => self.node = None,
                },
                Feed::CiliumNode if is_own(&key) => {
                    self.cilium_node = value.map(ApiObject::into_json);
                }
                Feed::CiliumEndpoints => {
                    let value = value.map(ApiObject::into_json);
                    self.cilium_endpoint(key.clone(), value, settings);
                    due.insert(Item::Endpoint(key));
                }
                _ => {}
            }
        }
        match feed {
            Feed::CiliumEndpoints if before != Some(defined) => due.extend(self.endpoint_items()),
            Feed::CiliumEndpoints => {}
            _ => {
                due.extend(Item::OF_NODE);
                for Unpublished { what, why, .. } in self.disputes(settings) {
                    tracing::warn!(what, why);
                }
            }
        }
        due
    }

    fn cilium_endpoint(
        &mut self,
        key: ObjectKey,
        value: Option<Value>,
        settings: &PublishSettings,
    ) {
        match value {
            Some(value) => {
                let ours =
                    self.pods.contains_key(&key) || endpoint::is_of(&value, settings.address);
                let value = if ours { value } else { endpoint::trimmed(value) };
                self.cilium_endpoints.insert(key, value);
            }
            None => drop(self.cilium_endpoints.remove(&key)),
        }
    }

    /// An endpoint of this node is so now.
    pub(super) fn endpoint(&mut self, view: Arc<EndpointView>) -> Option<Item> {
        let spec = &view.spec;
        if matches!(
            view.state,
            EndpointState::Disconnecting | EndpointState::Disconnected | EndpointState::Invalid
        ) {
            return self.gone(view.id);
        }
        if spec.namespace.is_empty() || spec.pod_name.is_empty() || spec.pod_uid.is_empty() {
            return None;
        }
        let pod = ObjectKey { namespace: spec.namespace.clone(), name: spec.pod_name.clone() };
        if !self.own.contains_key(&view.id) && self.speaks_for(&pod, spec) {
            self.pods.insert(pod.clone(), view.id);
        }
        let own = self.own.entry(view.id);
        let uid = spec.pod_uid.clone();
        let own = own.or_insert_with(|| OwnEndpoint { pod: pod.clone(), uid, in_force: None });
        if view.state == EndpointState::Ready {
            own.in_force = Some(view);
        }
        Some(Item::Endpoint(pod))
    }

    /// Whether it is a new endpoint that a pod is known by: the newest pod of a name counts, and of
    /// one pod its first interface.
    fn speaks_for(&self, pod: &ObjectKey, spec: &EndpointSpec) -> bool {
        let speaker = self.pods.get(pod).and_then(|id| self.own.get(id));
        spec.is_first_interface() || speaker.is_none_or(|speaker| speaker.uid != spec.pod_uid)
    }

    /// An endpoint of this node is no more.
    pub(super) fn gone(&mut self, id: EndpointId) -> Option<Item> {
        let pod = self.own.remove(&id)?.pod;
        if self.pods.get(&pod) == Some(&id) {
            let other = self.own.iter().find(|(_, own)| own.pod == pod).map(|(&id, _)| id);
            match other {
                Some(other) => drop(self.pods.insert(pod.clone(), other)),
                None => drop(self.pods.remove(&pod)),
            }
        }
        Some(Item::Endpoint(pod))
    }

    /// All endpoints of this node, as they are.
    pub(super) fn endpoints_are(&mut self, views: Vec<Arc<EndpointView>>) {
        let ids: BTreeSet<EndpointId> = views.iter().map(|view| view.id).collect();
        let gone: Vec<_> = self.own.keys().copied().filter(|id| !ids.contains(id)).collect();
        gone.into_iter().for_each(|id| drop(self.gone(id)));
        views.into_iter().for_each(|view| drop(self.endpoint(view)));
    }

    /// How many endpoints of this node have a pod.
    pub(super) fn endpoint_count(&self) -> usize {
        self.own.len()
    }

    /// All CiliumEndpoints that this node may have to do with.
    pub(super) fn endpoint_items(&self) -> BTreeSet<Item> {
        let keys = self.pods.keys().chain(self.cilium_endpoints.keys());
        keys.cloned().map(Item::Endpoint).collect()
    }

    /// What is to be written, if anything is.
    pub(super) fn desired(
        &self,
        item: &Item,
        settings: &PublishSettings,
        now: &str,
    ) -> Option<DesiredNodeObject> {
        let is_defined = |feed| self.feeds.get(&feed) == Some(&true);
        match item {
            Item::Condition if self.programmed && settings.in_node.condition => {
                node::condition(self.node.as_ref()?, now)
            }
            Item::Taint if self.programmed => {
                node::taint(self.node.as_ref()?, settings.in_node.taint.as_deref()?)
            }
            Item::Annotations if settings.in_node.annotate => {
                node::annotations(settings, self.node.as_ref()?)
            }
            Item::CiliumNode if settings.cilium_node && is_defined(Feed::CiliumNode) => {
                node::cilium_node(settings, self.node.as_ref()?, self.cilium_node.as_ref())
            }
            Item::Endpoint(key) if is_defined(Feed::CiliumEndpoints) => self.of_pod(key, settings),
            _ => None,
        }
    }

    fn of_pod(&self, key: &ObjectKey, settings: &PublishSettings) -> Option<DesiredNodeObject> {
        let there = self.cilium_endpoints.get(key);
        let Some(id) = self.pods.get(key) else {
            let foreign = there.filter(|it| endpoint::is_of(it, settings.address));
            return foreign.filter(|_| self.collects).and_then(endpoint::removal);
        };
        let view = self.own.get(id)?.in_force.as_ref()?;
        endpoint::desired(view, settings.address, there)
    }

    /// Whether the CiliumEndpoint of a pod is one that another node made for another pod: which pod
    /// is the later one is not for this node to say, and the older one's goes with it.
    fn occupied(&self, pod: &ObjectKey, settings: &PublishSettings) -> Option<Unpublished> {
        let there = self.cilium_endpoints.get(pod)?;
        let view = self.own.get(self.pods.get(pod)?)?.in_force.as_ref()?;
        let owner = endpoint::owner(there).unwrap_or("nobody");
        if endpoint::is_of(there, settings.address) || owner == view.spec.pod_uid {
            return None;
        }
        let node = &there["status"]["networking"]["node"];
        let why = format!(
            "it is that of the pod with UID {owner} on node {node}; this one's, UID {}, is made \
             when that is gone",
            view.spec.pod_uid
        );
        Some(Unpublished { what: Item::Endpoint(pod.clone()).to_string(), tries: 0, why })
    }

    /// What is not as this node says, and not for it to change.
    pub(super) fn disputes(&self, settings: &PublishSettings) -> Vec<Unpublished> {
        let dispute = |what: String, why: String| Unpublished { what, tries: 0, why };
        let mut all = Vec::new();
        if self.node.is_none() && self.feeds.contains_key(&Feed::Node) {
            let name = &settings.node_name;
            let why = "there is none; the agent's name for this node is that of its pod's \
                       spec.nodeName (K8S_NODE_NAME), or else of the machine";
            all.push(dispute(format!("Node {name}"), why.to_owned()));
        }
        all.extend(self.pods.keys().filter_map(|pod| self.occupied(pod, settings)));
        let (object, said) = match (settings.ipam, &self.node, &self.cilium_node) {
            (Some(IpamMode::Kubernetes) | None, Some(node), _) => {
                ("Node", PodCidrs::of_node(node, settings.in_node.annotate))
            }
            (Some(IpamMode::ClusterPool), _, Some(node)) => {
                ("CiliumNode", PodCidrs::of_cilium_node(node))
            }
            _ => return all,
        };
        let problems = said.problems.iter();
        all.extend(problems.map(|it| dispute(format!("pod CIDR of the {object}"), it.to_string())));
        let (have, said) = (settings.followed, said.pools);
        for (have, said) in [
            (have.ipv4.map(IpNet::from), said.ipv4.map(IpNet::from)),
            (have.ipv6.map(IpNet::from), said.ipv6.map(IpNet::from)),
        ] {
            if let (Some(have), Some(said)) = (have, said)
                && have != said
            {
                let why = format!(
                    "the {object} says {said}, but pods here have addresses of {have} since an \
                     earlier start, which stay: drain the node and remove its state directory to \
                     follow, or choose them by --ipv4-range and --ipv6-range"
                );
                all.push(dispute(format!("pod CIDR of the {object}"), why));
            }
        }
        all
    }
}
