//! Another cluster of a mesh: its store, which the node's agents read, and what stands there.

use std::collections::BTreeMap;

use serde_json::json;
use volvox_actors_simulated::{
    cluster::kvstore::{ADDRESSES, IDENTITIES, NODES},
    model::{ClusterId, IdentityId},
    testing::{MemoryClusters, MemoryKvStore},
};

use super::{kvstore::affect, node::Node};
use crate::sim::{
    history::events::StoreEvent,
    model::{NAMESPACE, REMOTE_CLUSTER_PODS, REMOTE_PODS, expected::remote_address, policies::App},
};

/// Its name.
const NAME: &str = "far";

/// Its number. That of the cluster which this node is of stays: identities are to keep theirs.
const NUMBER: ClusterId = ClusterId(2);

/// An address of its node, of which no packets are looked at.
pub(in crate::sim) const NODE_ADDRESS: &str = "203.0.113.8";

/// The other cluster.
pub(in crate::sim) struct RemoteCluster {
    store: MemoryKvStore,
    clusters: MemoryClusters,
    configured: bool,
    /// What its pods are.
    apps: BTreeMap<u8, App>,
}

/// Numbers of its pods.
pub(in crate::sim) fn pods() -> impl Iterator<Item = u8> {
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
    /// Whether its node is there for agents to see.
    pub(in crate::sim) fn has_node(&self) -> bool {
        self.configured && !self.apps.is_empty()
    }

    /// The number of a pod's labels, if agents are to see that pod.
    pub(in crate::sim) fn identity_of(&self, number: u8) -> Option<IdentityId> {
        self.apps.get(&number).filter(|_| self.configured).copied().map(identity)
    }
}

impl Node {
    /// From the next agent on, all read another cluster.
    pub(in crate::sim) fn mesh_clusters(&mut self) {
        if self.remote_cluster.is_some() {
            return;
        }
        let (store, clusters) = (MemoryKvStore::default(), MemoryClusters::default());
        let config = json!({ "id": NUMBER, "capabilities": {} });
        store.put(&format!("cilium/cluster-config/{NAME}"), &config.to_string());
        clusters.configure(NAME, &store);
        self.world.clusters = Some(clusters.clone());
        let settings = &mut self.world.settings;
        settings.kvstore.meshed = true;
        // Its node has labels, which have numbers then.
        settings.policy.node_selectors = true;
        // The model's policies know no clusters.
        if let Some(cluster) = &mut settings.policy.cluster {
            cluster.by_default = false;
        }
        self.remote_cluster =
            Some(RemoteCluster { store, clusters, configured: true, apps: BTreeMap::new() });
        self.kill();
        self.boot(true);
    }

    /// Something happens to its store.
    pub(in crate::sim) fn remote_store(&self, what: StoreEvent) {
        if let Some(cluster) = &self.remote_cluster {
            affect(&cluster.store, what);
        }
    }

    /// It is configured from now on, or not any more.
    pub(in crate::sim) fn configure_remote_cluster(&mut self, configured: bool) {
        let Some(cluster) = &mut self.remote_cluster else { return };
        if cluster.configured == configured {
            return;
        }
        cluster.configured = configured;
        match configured {
            true => cluster.clusters.configure(NAME, &cluster.store),
            false => cluster.clusters.remove(NAME),
        }
        let mut oracle = self.oracle.borrow_mut();
        for number in pods() {
            oracle
                .expected
                .remote_is(number, cluster.apps.get(&number).copied().filter(|_| configured));
        }
    }

    /// A pod of it is that from now on, or is not there any more.
    pub(in crate::sim) fn remote_cluster_pod(&mut self, number: u8, app: Option<App>) {
        let Some(cluster) = &mut self.remote_cluster else { return };
        let address = remote_address(number);
        let key = format!("{ADDRESSES}{address}");
        let mut oracle = self.oracle.borrow_mut();
        oracle.expected.remote_is(number, app);
        if !cluster.configured {
            // Who has not heard yet that it is not read any more may see it all the same.
            oracle.expected.remote_is(number, None);
        }
        drop(oracle);
        match app {
            None => {
                cluster.apps.remove(&number);
                cluster.store.delete(&key);
            }
            Some(app) => {
                cluster.apps.insert(number, app);
                let id = identity(app);
                let labels = format!(
                    "k8s:app={};k8s:io.cilium.k8s.policy.cluster={NAME};\
                     k8s:io.cilium.k8s.policy.serviceaccount=default;\
                     k8s:io.kubernetes.pod.namespace={NAMESPACE};",
                    app.name()
                );
                cluster.store.put(&format!("{IDENTITIES}{id}"), &labels);
                let value =
                    json!({ "IP": address, "Mask": null, "HostIP": NODE_ADDRESS, "ID": id });
                cluster.store.put(&key, &value.to_string());
            }
        }
        // Its node lives as long as its pods.
        match cluster.apps.is_empty() {
            true => cluster.store.delete(&node_key()),
            false => {
                let addresses = json!([{ "Type": "InternalIP", "IP": NODE_ADDRESS }]);
                let value = json!({
                    "Name": "yonder", "Cluster": NAME, "IPAddresses": addresses,
                    "Labels": { "pods": cluster.apps.len().to_string() },
                });
                cluster.store.put(&node_key(), &value.to_string());
            }
        }
    }

    /// Things that its store has to say.
    pub(in crate::sim) fn remote_store_jobs(&self) -> usize {
        let now = self.world.life().universe.host.now();
        self.remote_cluster.as_ref().map_or(0, |cluster| cluster.store.jobs(now))
    }

    /// It says one of them.
    pub(in crate::sim) fn step_remote_store(&self, nth: usize) {
        let now = self.world.life().universe.host.now();
        if let Some(cluster) = &self.remote_cluster {
            cluster.store.step(now, nth);
        }
    }
}
