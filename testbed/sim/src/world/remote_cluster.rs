//! Another cluster of a mesh: its store, which the node's agents read, and what stands there.

use std::collections::BTreeMap;

use serde_json::json;
use volvox_actors_simulated::{
    cluster::kvstore::{ADDRESSES, IDENTITIES, NODES},
    model::{ClusterId, IdentityId},
    testing::{MemoryKvStore, MemoryRemoteClusters},
};

use crate::model::{
    NAMESPACE, REMOTE_CLUSTER_PODS, REMOTE_PODS, expected::remote_address, policies::App,
};

/// Its name.
const NAME: &str = "far";

/// Its number. That of the cluster which this node is of stays: identities are to keep theirs.
const NUMBER: ClusterId = ClusterId(2);

/// An address of its node, of which no packets are looked at.
pub(crate) const NODE_ADDRESS: &str = "203.0.113.8";

/// The other cluster.
pub(crate) struct RemoteCluster {
    pub(super) store: MemoryKvStore,
    pub(super) clusters: MemoryRemoteClusters,
    pub(super) configured: bool,
    /// What its pods are.
    apps: BTreeMap<u8, App>,
}

/// Numbers of its pods.
pub(crate) fn pods() -> impl Iterator<Item = u8> {
    REMOTE_PODS + 1..=REMOTE_PODS + REMOTE_CLUSTER_PODS
}

/// The number that it gives the labels of a pod.
fn identity(app: App) -> IdentityId {
    let nth = App::NAMED.iter().position(|other| *other == app).unwrap_or_default();
    IdentityId(NUMBER.first().0 + nth as u32)
}

fn node_key() -> String {
    format!("{NODES}{NAME}/yonder")
}

impl RemoteCluster {
    /// Configured, without pods.
    pub(super) fn new() -> Self {
        let (store, clusters) = (MemoryKvStore::default(), MemoryRemoteClusters::default());
        let config = json!({ "id": NUMBER, "capabilities": {} });
        store.put(&format!("cilium/cluster-config/{NAME}"), &config.to_string());
        clusters.configure(NAME, &store);
        Self { store, clusters, configured: true, apps: BTreeMap::new() }
    }

    /// Agents read it from now on, or not any more; whether that is new.
    pub(super) fn configure(&mut self, configured: bool) -> bool {
        if self.configured == configured {
            return false;
        }
        self.configured = configured;
        match configured {
            true => self.clusters.configure(NAME, &self.store),
            false => self.clusters.remove(NAME),
        }
        true
    }

    /// What a pod is.
    pub(super) fn app(&self, number: u8) -> Option<App> {
        self.apps.get(&number).copied()
    }

    /// A pod is that from now on, or is not there any more.
    pub(super) fn set_pod(&mut self, number: u8, app: Option<App>) {
        let address = remote_address(number);
        let key = format!("{ADDRESSES}{address}");
        match app {
            None => {
                self.apps.remove(&number);
                self.store.delete(&key);
            }
            Some(app) => {
                self.apps.insert(number, app);
                let id = identity(app);
                let labels = format!(
                    "k8s:app={};k8s:io.cilium.k8s.policy.cluster={NAME};\
                     k8s:io.cilium.k8s.policy.serviceaccount=default;\
                     k8s:io.kubernetes.pod.namespace={NAMESPACE};",
                    app.name()
                );
                self.store.put(&format!("{IDENTITIES}{id}"), &labels);
                let value =
                    json!({ "IP": address, "Mask": null, "HostIP": NODE_ADDRESS, "ID": id });
                self.store.put(&key, &value.to_string());
            }
        }
        // Its node lives as long as its pods.
        match self.apps.is_empty() {
            true => self.store.delete(&node_key()),
            false => {
                let addresses = json!([{ "Type": "InternalIP", "IP": NODE_ADDRESS }]);
                let value = json!({
                    "Name": "yonder", "Cluster": NAME, "IPAddresses": addresses,
                    "Labels": { "pods": self.apps.len().to_string() },
                });
                self.store.put(&node_key(), &value.to_string());
            }
        }
    }

    /// Whether its node is there for agents to see.
    pub(crate) fn has_node(&self) -> bool {
        self.configured && !self.apps.is_empty()
    }

    /// The number of a pod's labels, if agents are to see that pod.
    pub(crate) fn identity_of(&self, number: u8) -> Option<IdentityId> {
        self.app(number).filter(|_| self.configured).map(identity)
    }
}
