//! What agrees between the node and the store that it shares.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use serde_json::Value;
use volvox_actors_simulated::{
    cluster::kvstore::{ADDRESSES, IDENTITY_USERS},
    model::IdentityId,
    testing::MemoryKvStore,
};

use crate::{
    model::{REMOTE_PODS, expected::remote_address},
    world::{
        kvstore::{NODE_ADDRESS, node_key, numbers},
        node::Node,
    },
};

impl Node {
    /// The store has what is true of this node's pods, and the kernel what it says of others.
    pub(crate) fn store_lacks(&self) -> Option<String> {
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
        for number in 1..=REMOTE_PODS {
            let address = remote_address(number);
            let row = self.mapped(address);
            let expected = rows.remove(&Some(address)).flatten();
            if row != expected {
                return Some(format!("{address} is {expected:?}, and the ipcache has {row:?}"));
            }
        }
        let there: IpAddr = NODE_ADDRESS.parse().ok()?;
        let row = self.mapped(there);
        let expected = store.get(&node_key("there")).map(|_| IdentityId::REMOTE_NODE);
        if row != expected {
            return Some(format!("node {there} is {expected:?}, and the ipcache has {row:?}"));
        }
        if store.get(&node_key(&self.world.settings.kvstore.node)).is_none() {
            return Some("the store does not know where this node is".to_owned());
        }
        self.remote_cluster_lacks().or_else(|| self.numbers_lack(store, &here, &used))
    }

    /// The identity that the kernel has for an address.
    pub(crate) fn mapped(&self, address: IpAddr) -> Option<IdentityId> {
        let prefix = address.into();
        self.world.kernel.with(|state| state.rows.ipcache.get(&prefix).map(|row| row.identity))
    }

    /// Every number means the same to all, and who uses it is known.
    fn numbers_lack(
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
