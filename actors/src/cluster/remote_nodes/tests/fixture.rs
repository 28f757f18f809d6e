//! A node in memory, and what other nodes of its cluster say of themselves.

use ipnet::IpNet;
use serde_json::{Value, json};

use crate::{
    cluster::{
        kvstore::NODES,
        remote_nodes::{RemoteNodesMsg, RemoteNodesView},
    },
    model::{Addresses, IdentityId},
    testing::{MemoryKvStore, World},
};

pub(super) const NODE: Option<IdentityId> = Some(IdentityId::REMOTE_NODE);

/// A node without an agent, of that name at that address; its pods route through the address
/// behind it.
pub(super) fn node(name: &str, last: u8) -> World {
    let mut world = World::off();
    world.settings.kvstore.node = name.to_owned();
    world.settings.kvstore.address = [192, 0, 2, last].into();
    world.settings.follow.node_name = name.to_owned();
    world.settings.node.router = Addresses { ipv4: Some([10, last, 0, 254].into()), ipv6: None };
    world
}

/// The node `here`, which shares a store.
pub(super) fn fixture() -> (World, MemoryKvStore) {
    let (mut world, store) = (node("here", 1), MemoryKvStore::default());
    world.kvstore = Some(store.clone());
    (world, store)
}

/// What another node says in the store.
pub(super) fn said(name: &str, addresses: &[(&str, &str)]) -> Value {
    let addresses: Vec<_> =
        addresses.iter().map(|(kind, ip)| json!({ "Type": kind, "IP": ip })).collect();
    json!({ "Name": name, "Cluster": "default", "IPAddresses": addresses })
}

/// Another node says that.
pub(super) fn announce(store: &MemoryKvStore, name: &str, said: &Value) {
    store.put(&format!("{NODES}default/{name}"), &said.to_string());
}

/// The identity that the kernel has for an address.
pub(super) fn mapped(world: &World, ip: &str) -> Option<IdentityId> {
    let address: std::net::IpAddr = ip.parse().unwrap();
    world.kernel.state().rows.ipcache.get(&IpNet::from(address)).map(|row| row.identity)
}

pub(super) fn view(world: &World) -> RemoteNodesView {
    world.ask(world.node_supervisor().nodes.as_ref().unwrap(), RemoteNodesMsg::Show)
}
