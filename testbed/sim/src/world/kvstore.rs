//! A key-value store that the node shares with another one, and what that one writes there.

use std::{collections::BTreeMap, time::Duration};

use serde_json::json;
use volvox_actors_simulated::{
    cluster::kvstore::{ADDRESSES, IDENTITIES, IDENTITY_USERS, NODES},
    model::IdentityId,
    testing::MemoryKvStore,
};

use super::{node::Node, store_events::affect};
use crate::{
    history::events::StoreEvent,
    model::{NAMESPACE, expected::remote_address, policies::App},
};

/// The node that all remote pods are on.
const THERE: &str = "192.0.2.7";

/// What it says of itself: an address of which no packets are looked at, for the model knows no nodes.
pub(crate) const NODE_ADDRESS: &str = "203.0.113.7";

/// Where that node looks for free numbers.
const FIRST_NUMBER: u32 = 2_000;

/// How long what a node announced outlives it here.
const LEASE: Duration = Duration::from_secs(60);

/// Where a node says where it is.
pub(crate) fn node_key(name: &str) -> String {
    format!("{NODES}default/{name}")
}

/// What the store has for the labels of a pod.
fn labels(app: App) -> String {
    format!(
        "k8s:app={};k8s:io.cilium.k8s.policy.cluster=default;\
         k8s:io.cilium.k8s.policy.serviceaccount=default;k8s:io.kubernetes.pod.namespace={NAMESPACE};",
        app.name()
    )
}

/// The numbers that the store has, with their labels.
pub(crate) fn numbers(store: &MemoryKvStore) -> impl Iterator<Item = (IdentityId, String)> {
    store.keys(IDENTITIES).into_iter().filter_map(|key| {
        let number = key.strip_prefix(IDENTITIES)?.parse().ok()?;
        Some((IdentityId(number), store.get(&key)?))
    })
}

/// What the other node does about the number of a pod's labels: it takes the one that there is, or
/// a free one.
fn number_of(store: &MemoryKvStore, app: App) -> IdentityId {
    let labels = labels(app);
    let known: BTreeMap<IdentityId, String> = numbers(store).collect();
    let found = known.iter().find(|(_, text)| **text == labels).map(|(&id, _)| id);
    let mut free = (FIRST_NUMBER..).map(IdentityId).filter(|id| !known.contains_key(id));
    let id = found.or_else(|| free.next()).unwrap_or_default();
    if found.is_none() {
        store.put(&format!("{IDENTITIES}{id}"), &labels);
    }
    store.put(&format!("{IDENTITY_USERS}{labels}/{THERE}"), &id.to_string());
    id
}

impl Node {
    /// The next agent, and all behind it, share a store with another node.
    pub(crate) fn share_store(&mut self) {
        if self.world.kvstore.is_none() {
            self.world.kvstore = Some(MemoryKvStore::default());
            self.world.settings.kvstore.lease_ttl = LEASE;
            self.kill();
            self.boot(true);
        }
    }

    /// Something happens to that store.
    pub(crate) fn store(&mut self, what: StoreEvent) {
        if let Some(store) = &self.world.kvstore {
            affect(store, what);
        }
    }

    /// Things that the store has to say.
    pub(crate) fn store_jobs(&self) -> usize {
        let now = self.world.life().universe.host.now();
        self.world.kvstore.as_ref().map_or(0, |store| store.jobs(now))
    }

    /// It says one of them.
    pub(crate) fn step_store(&self, nth: usize) {
        let now = self.world.life().universe.host.now();
        if let Some(store) = &self.world.kvstore {
            store.step(now, nth);
        }
    }

    /// The pod of another node is that from now on, or is not there any more.
    pub(crate) fn remote_pod(&mut self, number: u8, app: Option<App>) {
        let Some(store) = &self.world.kvstore else { return };
        let address = remote_address(number);
        let mut oracle = self.oracle.borrow_mut();
        let before = oracle.expected.remote_is(number, app);
        drop(oracle);
        let key = format!("{ADDRESSES}{address}");
        match app {
            None => store.delete(&key),
            Some(app) => {
                let id = number_of(store, app);
                let value = json!({
                    "IP": address, "Mask": null, "HostIP": THERE, "ID": id, "Key": 0,
                    "Metadata": format!("cilium-global:default:there:{number}"),
                });
                store.put(&key, &value.to_string());
            }
        }
        let oracle = self.oracle.borrow();
        // The other node lives as long as its pods.
        match oracle.expected.remote_apps().is_empty() {
            true => store.delete(&node_key("there")),
            false => {
                let addresses = json!([{ "Type": "InternalIP", "IP": NODE_ADDRESS }]);
                let value =
                    json!({ "Name": "there", "Cluster": "default", "IPAddresses": addresses });
                store.put(&node_key("there"), &value.to_string());
            }
        }
        if let Some(before) = before.filter(|app| !oracle.expected.remote_apps().contains(app)) {
            store.delete(&format!("{IDENTITY_USERS}{}/{THERE}", labels(before)));
        }
    }
}
