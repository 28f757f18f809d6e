//! Where the keys of another cluster are in its store, by kind: identities, addresses, nodes and
//! services.

use std::sync::Arc;

use serde::Serialize;

use super::config::ClusterConfig;
use crate::{
    cluster::kvstore::{ADDRESSES, IDENTITIES, NODES},
    model::ClusterId,
};

/// What is told of by a cluster, each below a prefix of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum RemoteKind {
    /// Identities with their labels.
    Identities,
    /// Addresses and whose they are.
    Addresses,
    /// Nodes.
    Nodes,
    /// Services.
    Services,
}

impl RemoteKind {
    /// All of them. Identities first: an address waits for the labels of its identity.
    pub const ALL: [Self; 4] = [Self::Identities, Self::Addresses, Self::Nodes, Self::Services];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Identities => "identities",
            Self::Addresses => "addresses",
            Self::Nodes => "nodes",
            Self::Services => "services",
        }
    }

    /// As Cilium's keys have it.
    fn segment(self) -> &'static str {
        match self {
            Self::Addresses => "ip",
            _ => self.name(),
        }
    }
}

/// Which cluster says something, and where in its store that stands.
#[derive(Debug)]
pub struct ClusterOrigin {
    /// Its name.
    pub cluster: Arc<str>,
    /// Its number.
    pub id: ClusterId,
    /// How often it has begun to tell all it has.
    pub generation: u64,
    /// Below it: numbers of identities.
    pub identities: String,
    /// Below it: addresses and prefixes.
    pub addresses: String,
    /// Below it: nodes.
    pub nodes: String,
    /// Below it: namespaces and services.
    pub services: String,
}

impl ClusterOrigin {
    pub(crate) fn new(cluster: &Arc<str>, config: &ClusterConfig, generation: u64) -> Self {
        // A cache holds what is another cluster's, each below its name.
        let cached = |kind: RemoteKind| format!("cilium/cache/{}/v1/{cluster}/", kind.segment());
        let services = format!("cilium/state/services/v1/{cluster}/");
        let (identities, addresses, nodes, services) = match config.cached {
            true => (
                cached(RemoteKind::Identities) + "id/",
                cached(RemoteKind::Addresses),
                cached(RemoteKind::Nodes),
                cached(RemoteKind::Services),
            ),
            false => (
                IDENTITIES.to_owned(),
                ADDRESSES.to_owned(),
                format!("{NODES}{cluster}/"),
                services,
            ),
        };
        let (cluster, id) = (Arc::clone(cluster), config.id);
        Self { cluster, id, generation, identities, addresses, nodes, services }
    }

    pub(crate) fn prefix(&self, kind: RemoteKind) -> &str {
        match kind {
            RemoteKind::Identities => &self.identities,
            RemoteKind::Addresses => &self.addresses,
            RemoteKind::Nodes => &self.nodes,
            RemoteKind::Services => &self.services,
        }
    }

    /// The key that is there once all of that kind is written, where the cluster says so.
    pub(crate) fn canary(&self, kind: RemoteKind, config: &ClusterConfig) -> Option<String> {
        let place = if config.cached { "cache" } else { "state" };
        let segment = kind.segment();
        config
            .synced_canaries
            .then(|| format!("cilium/synced/{}/cilium/{place}/{segment}/v1", self.cluster))
    }
}
