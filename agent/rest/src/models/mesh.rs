//! Shape of the remote clusters in the agent's status.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use volvox_actors::cluster::{
    addresses::AddressesView, clustermesh::RemoteView, origins::RemoteKind,
    remote_nodes::RemoteNodesView,
};

/// Other clusters, in the answer to `GET /healthz`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct ClusterMeshStatus {
    /// Each of them.
    pub clusters: Vec<RemoteCluster>,
}

/// How another cluster stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
#[allow(missing_docs, reason = "the members are Cilium's")]
pub struct RemoteCluster {
    pub name: Arc<str>,
    /// Whether all it has is known, and followed.
    pub ready: bool,
    /// Whether its store answers.
    pub connected: bool,
    /// What is wrong, or nothing.
    pub status: String,
    pub num_nodes: usize,
    pub num_shared_services: usize,
    pub num_identities: usize,
    pub num_endpoints: usize,
    pub config: RemoteClusterConfig,
    pub synced: RemoteClusterSynced,
}

/// What it says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
#[allow(missing_docs, reason = "the members are Cilium's")]
pub struct RemoteClusterConfig {
    pub required: bool,
    pub retrieved: bool,
    pub cluster_id: u8,
    /// Whether its store is a copy.
    pub kvstoremesh: bool,
    pub sync_canaries: bool,
}

/// What of it was listed once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
#[allow(missing_docs, reason = "the members are Cilium's")]
pub struct RemoteClusterSynced {
    pub nodes: bool,
    pub services: bool,
    pub identities: bool,
    pub endpoints: bool,
}

impl RemoteCluster {
    /// What those say of it who read it and who own what it says.
    pub fn new(view: &RemoteView, addresses: &AddressesView, nodes: &RemoteNodesView) -> Self {
        let (endpoints, identities) =
            addresses.clusters.get(&view.cluster).copied().unwrap_or_default();
        let unreachable = view.unreachable().map(|error| format!("it is unreachable: {error}"));
        let waiting = (!view.is_ready()).then(|| "not all of it is read yet".to_owned());
        Self {
            name: Arc::clone(&view.cluster),
            ready: view.is_ready(),
            connected: view.is_connected(),
            status: view.problem.clone().or(unreachable).or(waiting).unwrap_or_default(),
            num_nodes: nodes.clusters.get(&view.cluster).copied().unwrap_or_default(),
            num_shared_services: view.services,
            num_identities: identities,
            num_endpoints: endpoints,
            config: RemoteClusterConfig {
                required: true,
                retrieved: view.id.is_some(),
                cluster_id: view.id.map_or(0, |id| id.0),
                kvstoremesh: view.cached,
                sync_canaries: view.synced_canaries,
            },
            synced: RemoteClusterSynced {
                nodes: view.is_listed(RemoteKind::Nodes),
                services: view.is_listed(RemoteKind::Services),
                identities: view.is_listed(RemoteKind::Identities),
                endpoints: view.is_listed(RemoteKind::Addresses),
            },
        }
    }
}
