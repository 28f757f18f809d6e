//! Another cluster of a mesh: its store, which the node's agents read, and what stands there.

use std::{collections::BTreeMap, net::IpAddr};

use serde_json::json;
use volvox_actors_simulated::{
    cluster::kvstore::{ADDRESSES, IDENTITIES, NODES},
    model::{ClusterId, IdentityId, IdentityScope},
    testing::{MemoryKvStore, MemoryRemoteClusters},
};

use super::{
    action::{FARS, REMOTES},
    around::Store,
    model::{App, NAMESPACE},
    node::Node,
    store::{address_of, affect},
};

/// Its name.
const NAME: &str = "far";
/// Its number. That of the cluster which this node is of stays: identities are to keep theirs.
const NUMBER: ClusterId = ClusterId(2);
/// An address of its node, of which no packets are looked at.
const NODE: &str = "203.0.113.8";

/// The other cluster.
pub(super) struct Far {
    store: MemoryKvStore,
    clusters: MemoryRemoteClusters,
    configured: bool,
    /// What its pods are.
    apps: BTreeMap<u8, App>,
}

/// Numbers of its pods.
pub(super) fn pods() -> impl Iterator<Item = u8> {
    REMOTES + 1..=REMOTES + FARS
}

/// The number that it gives the labels of a pod.
fn identity(app: App) -> IdentityId {
    let nth = App::NAMED.iter().position(|other| *other == app).unwrap_or_default();
    IdentityId(NUMBER.first().0 + nth as u32)
}

fn node_key() -> String {
    format!("{NODES}{NAME}/yonder")
}

impl Node {
    /// From the next agent on, all read another cluster.
    pub(super) fn mesh(&mut self) {
        if self.far.is_some() {
            return;
        }
        let (store, clusters) = (MemoryKvStore::default(), MemoryRemoteClusters::default());
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
        self.far = Some(Far { store, clusters, configured: true, apps: BTreeMap::new() });
        self.kill();
        self.boot(true);
    }

    /// Something happens to its store.
    pub(super) fn far(&self, what: Store) {
        if let Some(far) = &self.far {
            affect(&far.store, what);
        }
    }

    /// It is configured from now on, or not any more.
    pub(super) fn configure(&mut self, configured: bool) {
        let Some(far) = &mut self.far else { return };
        if far.configured == configured {
            return;
        }
        far.configured = configured;
        match configured {
            true => far.clusters.configure(NAME, &far.store),
            false => far.clusters.remove(NAME),
        }
        let mut oracle = self.oracle.borrow_mut();
        for number in pods() {
            oracle.remote_is(number, far.apps.get(&number).copied().filter(|_| configured));
        }
    }

    /// A pod of it is that from now on, or is not there any more.
    pub(super) fn far_pod(&mut self, number: u8, app: Option<App>) {
        let Some(far) = &mut self.far else { return };
        let address = address_of(number);
        let key = format!("{ADDRESSES}{address}");
        let mut oracle = self.oracle.borrow_mut();
        oracle.remote_is(number, app);
        if !far.configured {
            // Who has not heard yet that it is not read any more may see it all the same.
            oracle.remote_is(number, None);
        }
        drop(oracle);
        match app {
            None => {
                far.apps.remove(&number);
                far.store.delete(&key);
            }
            Some(app) => {
                far.apps.insert(number, app);
                let id = identity(app);
                let labels = format!(
                    "k8s:app={};k8s:io.cilium.k8s.policy.cluster={NAME};\
                     k8s:io.cilium.k8s.policy.serviceaccount=default;\
                     k8s:io.kubernetes.pod.namespace={NAMESPACE};",
                    app.name()
                );
                far.store.put(&format!("{IDENTITIES}{id}"), &labels);
                let value = json!({ "IP": address, "Mask": null, "HostIP": NODE, "ID": id });
                far.store.put(&key, &value.to_string());
            }
        }
        // Its node lives as long as its pods.
        match far.apps.is_empty() {
            true => far.store.delete(&node_key()),
            false => {
                let addresses = json!([{ "Type": "InternalIP", "IP": NODE }]);
                let value = json!({
                    "Name": "yonder", "Cluster": NAME, "IPAddresses": addresses,
                    "Labels": { "pods": far.apps.len().to_string() },
                });
                far.store.put(&node_key(), &value.to_string());
            }
        }
    }

    /// What the kernel does not have of what it says, or has beside that.
    pub(super) fn unmeshed(&self) -> Option<String> {
        let far = self.far.as_ref()?;
        let of = |number| far.apps.get(&number).filter(|_| far.configured);
        let rows = pods().map(|number| (address_of(number), of(number).copied().map(identity)));
        let node: IpAddr = NODE.parse().ok()?;
        let is_there = far.configured && !far.apps.is_empty();
        let row = self.mapped(node);
        if row.is_some_and(|id| id.scope() == IdentityScope::RemoteNode) != is_there {
            return Some(format!("its node {node} is there: {is_there}; the ipcache has {row:?}"));
        }
        rows.into_iter().find_map(|(address, expected)| {
            let row = self.mapped(address);
            (row != expected).then(|| {
                format!("{address} of another cluster is {expected:?}, the ipcache has {row:?}")
            })
        })
    }

    /// Things that its store has to say.
    pub(super) fn far_said(&self) -> usize {
        let now = self.world.life().universe.host.now();
        self.far.as_ref().map_or(0, |far| far.store.jobs(now))
    }

    /// It says one of them.
    pub(super) fn hear_far(&self, nth: usize) {
        let now = self.world.life().universe.host.now();
        if let Some(far) = &self.far {
            far.store.step(now, nth);
        }
    }
}
