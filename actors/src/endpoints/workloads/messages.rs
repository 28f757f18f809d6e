//! Messages to the keeper of pods and namespaces, and the facts that it answers with.

use std::collections::BTreeMap;

use super::PodPoolNames;
use crate::{
    host::{Message, Outlet, Reply},
    model::{ApiObject, EndpointId, Families, Labels, Manifest, NamedPorts},
    ports::ObjectKey,
};

/// What the cluster says of a pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodFacts {
    /// All its labels: its own, its namespace's, its cluster's and its service account's.
    pub labels: Labels,
    /// Names of its containers' ports.
    pub named_ports: NamedPorts,
}

/// What the keeper of pods and namespaces says to whoever has the endpoints.
pub enum WorkloadsNews {
    /// What the cluster says of a pod changed.
    Pod {
        /// `namespace/pod`
        name: String,
        /// What it says now.
        facts: PodFacts,
    },
    /// How this node is labelled; `None` if nobody says it.
    Node(Option<Labels>),
}

impl WorkloadsNews {
    /// Its name, for traces.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Pod { .. } => "Pod",
            Self::Node(_) => "Node",
        }
    }
}

/// What the keeper of pods and namespaces can be told.
pub enum WorkloadsMsg {
    /// These sources changed; only pods, namespaces and nodes are looked at. The first of these messages
    /// holds all that is known at start: questions wait for it.
    Manifests(Vec<Manifest>),
    /// What the cluster says of nodes. The first holds all there are.
    Nodes(Vec<(ObjectKey, Option<ApiObject>)>),
    /// What is known of a pod. If a cluster is followed it waits for that pod.
    Describe {
        /// Kubernetes namespace.
        namespace: String,
        /// Kubernetes pod name.
        pod: String,
        /// Which pod of that name, if that is known: one made anew is another.
        uid: String,
        /// Where the answer goes.
        reply: Reply<PodFacts>,
    },
    /// Names of the ports of these endpoints' pods, as far as a manifest describes them.
    PortsOf {
        /// Kubernetes namespace and name of each one's pod.
        pods: BTreeMap<EndpointId, (String, String)>,
        /// Where the answer goes.
        reply: Reply<BTreeMap<EndpointId, NamedPorts>>,
    },
    /// Of which pools a pod's addresses are, or why that is not clear. If a cluster is followed it waits
    /// for that pod, and for all pools.
    PoolsOf {
        /// For which pod, and what is known.
        request: PoolsRequest,
        /// Where the answer goes.
        reply: Reply<Result<PodPoolNames, String>>,
    },
    /// What the cluster says of pools of addresses. The first holds all there are.
    Pools(Vec<(ObjectKey, Option<ApiObject>)>),
    /// Tell there when what is known of a pod changes.
    Subscribe(Outlet<WorkloadsNews>),
}

/// A request for a pod's pools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolsRequest {
    /// Kubernetes namespace and name of the pod.
    pub pod: (String, String),
    /// Of which families.
    pub families: Families,
    /// The pool that whoever asks has chosen.
    pub chosen: Option<String>,
    /// The pool of who has no other.
    pub default: String,
}

impl Message for WorkloadsMsg {
    fn kind(&self) -> &'static str {
        match self {
            Self::Manifests(_) => "Manifests",
            Self::Nodes(_) => "Nodes",
            Self::Describe { .. } => "Describe",
            Self::PortsOf { .. } => "PortsOf",
            Self::PoolsOf { .. } => "PoolsOf",
            Self::Pools(_) => "Pools",
            Self::Subscribe(_) => "Subscribe",
        }
    }
}
