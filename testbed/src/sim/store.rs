//! A key-value store that the node shares with others, and what those write there.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, Ipv4Addr},
    time::Duration,
};

use serde_json::{Value, json};
use volvox_actors_simulated::{
    cluster::kvstore::{ADDRESSES, IDENTITIES, IDENTITY_USERS, NODES},
    model::IdentityId,
    testing::{KvLink, MemoryKvStore},
};

use super::{
    action::REMOTES,
    around::Store,
    far,
    model::{App, NAMESPACE},
    node::Node,
    oracle::Oracle,
};

/// The node that all remote pods are on.
const THERE: &str = "192.0.2.7";
/// What it says of itself: an address of which no packets are looked at, for the model knows no nodes.
const NODE: &str = "203.0.113.7";
/// Where that node looks for free numbers.
const FIRST_NUMBER: u32 = 2_000;
/// How long what a node announced outlives it here.
const LEASE: Duration = Duration::from_secs(60);

/// The address of a pod of another node.
pub(super) fn address_of(remote: u8) -> IpAddr {
    Ipv4Addr::new(10, 1, 0, remote).into()
}

/// Where a node says where it is.
pub(super) fn node_key(name: &str) -> String {
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
fn numbers(store: &MemoryKvStore) -> impl Iterator<Item = (IdentityId, String)> {
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

/// Something happens to a store.
pub(super) fn affect(store: &MemoryKvStore, what: Store) {
    match what {
        Store::Down => store.set_link(KvLink::Down),
        Store::Silent => store.set_link(KvLink::Silent),
        Store::Up => store.set_link(KvLink::Up),
        Store::Compacted => store.compact(),
        Store::Expired => store.expire(),
        Store::HungUp => store.hang_up(),
        Store::Lost => store.lose_answers(),
        Store::Restored => store.rewind(),
    }
}

impl Oracle {
    /// A pod of another node is that from now on; what it was before.
    pub(super) fn remote_is(&mut self, number: u8, app: Option<App>) -> Option<App> {
        let versions = self.remotes.entry(number).or_insert_with(|| vec![None]);
        let before = versions.last().copied().flatten();
        versions.retain(|version| *version != app);
        versions.push(app);
        before
    }

    /// What pods of the other node are now.
    pub(super) fn remote_apps(&self) -> Vec<App> {
        let theirs = self.remotes.range(..=REMOTES).map(|(_, versions)| versions);
        theirs.filter_map(|versions| versions.last().copied().flatten()).collect()
    }
}

impl Node {
    /// The next agent, and all behind it, share a store with another node.
    pub(super) fn share(&mut self) {
        if self.world.kvstore.is_none() {
            self.world.kvstore = Some(MemoryKvStore::default());
            self.world.settings.kvstore.lease_ttl = LEASE;
            self.kill();
            self.boot(true);
        }
    }

    pub(super) fn store(&mut self, what: Store) {
        if let Some(store) = &self.world.kvstore {
            affect(store, what);
        }
    }

    /// Things that the store has to say.
    pub(super) fn stored(&self) -> usize {
        let now = self.world.life().universe.host.now();
        self.world.kvstore.as_ref().map_or(0, |store| store.jobs(now))
    }

    /// It says one of them.
    pub(super) fn read(&self, nth: usize) {
        let now = self.world.life().universe.host.now();
        if let Some(store) = &self.world.kvstore {
            store.step(now, nth);
        }
    }

    /// The pod of another node is that from now on, or is not there any more.
    pub(super) fn remote(&mut self, number: u8, app: Option<App>) {
        let Some(store) = &self.world.kvstore else { return };
        let address = address_of(number);
        let mut oracle = self.oracle.borrow_mut();
        let before = oracle.remote_is(number, app);
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
        match oracle.remote_apps().is_empty() {
            true => store.delete(&node_key("there")),
            false => {
                let addresses = json!([{ "Type": "InternalIP", "IP": NODE }]);
                let value =
                    json!({ "Name": "there", "Cluster": "default", "IPAddresses": addresses });
                store.put(&node_key("there"), &value.to_string());
            }
        }
        if let Some(before) = before.filter(|app| !oracle.remote_apps().contains(app)) {
            store.delete(&format!("{IDENTITY_USERS}{}/{THERE}", labels(before)));
        }
    }

    /// Pods of other nodes go.
    pub(super) fn leave_alone(&mut self) {
        self.store(Store::Up);
        self.far(Store::Up);
        (1..=REMOTES).for_each(|number| self.remote(number, None));
        self.part();
        far::pods().for_each(|number| self.far_pod(number, None));
    }

    /// The store has what is true of this node's pods, and the kernel what it says of others.
    pub(super) fn unshared(&self) -> Option<String> {
        let store = self.world.kvstore.as_ref()?;
        let here = self.world.settings.kvstore.address.to_string();
        let (mut own, mut used) = (BTreeMap::new(), BTreeMap::new());
        for view in self.world.list() {
            for address in view.spec.addresses.iter() {
                own.insert(format!("{ADDRESSES}{address}"), view.identity);
            }
            if !view.identity.is_reserved() {
                used.insert(view.identity_labels.sorted_text(), view.identity);
            }
        }
        let mut rows = BTreeMap::new();
        for key in store.keys(ADDRESSES) {
            let value = store.get(&key).unwrap_or_default();
            let value: Value = serde_json::from_str(&value).unwrap_or_default();
            let id = value["ID"].as_u64().and_then(|id| u32::try_from(id).ok()).map(IdentityId);
            if value["HostIP"] == here.as_str() {
                let expected = own.remove(&key);
                if expected != id {
                    return Some(format!("{key} is {expected:?} here, and the store has {id:?}"));
                }
            } else if let Some(address) = key.strip_prefix(ADDRESSES) {
                rows.insert(address.parse().ok(), id);
            }
        }
        if let Some((key, id)) = own.pop_first() {
            return Some(format!("{key} is {id}, and the store does not know"));
        }
        for number in 1..=REMOTES {
            let address = address_of(number);
            let row = self.mapped(address);
            let expected = rows.remove(&Some(address)).flatten();
            if row != expected {
                return Some(format!("{address} is {expected:?}, and the ipcache has {row:?}"));
            }
        }
        let there: IpAddr = NODE.parse().ok()?;
        let row = self.mapped(there);
        let expected = store.get(&node_key("there")).map(|_| IdentityId::REMOTE_NODE);
        if row != expected {
            return Some(format!("node {there} is {expected:?}, and the ipcache has {row:?}"));
        }
        if store.get(&node_key(&self.world.settings.kvstore.node)).is_none() {
            return Some("the store does not know where this node is".to_owned());
        }
        self.unmeshed().or_else(|| self.misnumbered(store, &here, &used))
    }

    /// The identity that the kernel has for an address.
    pub(super) fn mapped(&self, address: IpAddr) -> Option<IdentityId> {
        let prefix = address.into();
        self.world.kernel.with(|state| state.rows.ipcache.get(&prefix).map(|row| row.identity))
    }

    /// Every number means the same to all, and who uses it is known.
    fn misnumbered(
        &self,
        store: &MemoryKvStore,
        here: &str,
        used: &BTreeMap<String, IdentityId>,
    ) -> Option<String> {
        // Two nodes of which one cannot see what the other wrote may number the same labels twice.
        let known: BTreeMap<IdentityId, String> = numbers(store).collect();
        let users = store.keys(IDENTITY_USERS).into_iter();
        let mut users: BTreeSet<String> =
            users.filter(|key| key.ends_with(&format!("/{here}"))).collect();
        for (labels, id) in used {
            if known.get(id) != Some(labels) {
                let found = known.get(id);
                return Some(format!("{id} is {labels} here, to the store it is {found:?}"));
            }
            if !users.remove(&format!("{IDENTITY_USERS}{labels}/{here}")) {
                return Some(format!("the store does not know that this node uses {labels}"));
            }
        }
        users.pop_first().map(|key| format!("the store has {key}, and nobody here uses it"))
    }
}
