//! A node in memory that shares a store, and what others write there.

use ipnet::IpNet;

use crate::{
    cluster::{
        addresses::{AddressesMsg, AddressesView},
        allocator::{AllocatorMsg, AllocatorView},
        kvstore::{ADDRESSES, IDENTITIES, SessionView},
    },
    model::IdentityId,
    testing::{MemoryKvStore, World, pod, spec},
};

/// Labels of a pod of that app in the namespace of the test, as the store has them.
pub(crate) fn labels(app: &str) -> String {
    format!(
        "k8s:app={app};k8s:io.cilium.k8s.policy.cluster=default;\
         k8s:io.cilium.k8s.policy.serviceaccount=default;k8s:io.kubernetes.pod.namespace=ns;"
    )
}

/// A node with an agent and a store.
pub(crate) fn fixture() -> (World, MemoryKvStore) {
    let store = MemoryKvStore::default();
    let mut world = World::off();
    world.kvstore = Some(store.clone());
    (world, store)
}

/// Another node gives labels a number.
pub(crate) fn identity(store: &MemoryKvStore, id: u32, labels: &str) {
    store.put(&format!("{IDENTITIES}{id}"), labels);
}

/// Another node has a pod at that address.
pub(crate) fn address(store: &MemoryKvStore, ip: &str, id: u32) {
    let value = format!(
        r#"{{"IP":"{ip}","Mask":null,"HostIP":"192.0.2.7","ID":{id},"Key":0,"Metadata":"cilium-global:default:there:17"}}"#
    );
    store.put(&format!("{ADDRESSES}{ip}"), &value);
}

/// The pod of that number is made, with that label.
pub(crate) fn make(world: &mut World, number: u8, app: &str) -> IdentityId {
    world.apply(&format!("pod-{number}"), [pod(number, app)]);
    world.create(spec(number)).unwrap().identity
}

/// The identity that the kernel has for an address.
pub(crate) fn mapped(world: &World, prefix: &str) -> Option<u32> {
    let prefix: IpNet = prefix.parse().unwrap();
    world.kernel.state().rows.ipcache.get(&prefix).map(|row| row.identity.0)
}

/// Identities that the policy map of the pod of that number names.
pub(crate) fn peers(world: &World, number: u8) -> Vec<u32> {
    let state = world.kernel.state();
    let config = state.rows.config[&spec(number).ifindex];
    let mut ids: Vec<u32> =
        state.slots[&config.policy_slot].keys().map(|key| key.identity.0).collect();
    ids.dedup();
    ids
}

pub(crate) fn session(world: &World) -> SessionView {
    let actors = world.node_supervisor().kvstore.as_ref().unwrap();
    world.ask(&actors.session, crate::cluster::kvstore::SessionMsg::Show)
}

pub(crate) fn addresses(world: &World) -> AddressesView {
    let actors = world.node_supervisor().kvstore.as_ref().unwrap();
    world.ask(&actors.addresses, AddressesMsg::Show)
}

pub(crate) fn allocator(world: &World) -> AllocatorView {
    let actors = world.node_supervisor().kvstore.as_ref().unwrap();
    world.ask(&actors.allocator, AllocatorMsg::Show)
}
