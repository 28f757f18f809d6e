//! A node in memory that shares identities through an API server, and what others write there.

use ipnet::IpNet;
use serde_json::{Value, json};

use crate::{
    cluster::{
        addresses::{AddressesMsg, AddressesView},
        allocator::{self, AllocatorMsg, AllocatorView},
        publish::{InNode, PublishSettings},
    },
    model::{Addresses, IdentityId},
    testing::{MemoryCluster, World, pod, spec},
};

/// A cluster with a namespace.
pub(crate) fn cluster() -> MemoryCluster {
    let cluster = MemoryCluster::new();
    cluster.apply(json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "ns" },
    }));
    cluster
}

/// A node of it, without an agent.
pub(crate) fn node(cluster: &MemoryCluster, name: &str, address: &str) -> World {
    let mut world = World::off();
    world.cluster = Some(cluster.clone());
    let settings = &mut world.settings;
    settings.identity_allocation = allocator::Mode::Crd;
    settings.kvstore.node = name.to_owned();
    settings.kvstore.address = address.parse().unwrap();
    settings.follow.node_name = name.to_owned();
    settings.publish = Some(PublishSettings {
        node_name: name.to_owned(),
        address: settings.kvstore.address,
        router: Addresses { ipv4: "10.0.0.254".parse().ok(), ipv6: None },
        health: None,
        pools: settings.pools,
        followed: settings.pools,
        ipam: None,
        boot_id: "boot".to_owned(),
        in_node: InNode::default(),
        cilium_node: false,
        cilium_endpoints: true,
        seed: 1,
    });
    world
}

/// A node with an agent that has just started, in a cluster.
pub(crate) fn fixture() -> (World, MemoryCluster) {
    let cluster = cluster();
    let mut world = node(&cluster, "node-1", "192.0.2.1");
    world.boot();
    (world, cluster)
}

/// Labels of a pod of that app, as objects have them.
pub(crate) fn labels(app: &str) -> Value {
    json!({
        "k8s:app": app,
        "k8s:io.cilium.k8s.namespace.labels.kubernetes.io/metadata.name": "ns",
        "k8s:io.cilium.k8s.policy.cluster": "default",
        "k8s:io.cilium.k8s.policy.serviceaccount": "default",
        "k8s:io.kubernetes.pod.namespace": "ns",
    })
}

/// What another node makes for a number.
pub(crate) fn identity(id: u32, labels: Value) -> Value {
    json!({
        "apiVersion": "cilium.io/v2", "kind": "CiliumIdentity",
        "metadata": { "name": id.to_string() }, "security-labels": labels,
    })
}

/// The labels that the cluster has for a number.
pub(crate) fn labels_of(cluster: &MemoryCluster, id: impl ToString) -> Option<Value> {
    let object = cluster.object("CiliumIdentity", "", &id.to_string())?;
    Some(object["security-labels"].clone())
}

/// What another node says of a pod of its own.
pub(crate) fn endpoint(name: &str, ip: &str, id: u32) -> Value {
    let networking = json!({ "addressing": [{ "ipv4": ip }], "node": "192.0.2.7" });
    json!({
        "apiVersion": "cilium.io/v2", "kind": "CiliumEndpoint",
        "metadata": {
            "name": name, "namespace": "ns", "uid": format!("cep-{name}"),
            "ownerReferences": [{ "kind": "Pod", "name": name, "uid": format!("uid-of-{name}") }],
        },
        "status": { "id": 7, "identity": { "id": id }, "networking": networking },
    })
}

/// The pod of that number is made, with that label.
pub(crate) fn make(world: &World, cluster: &MemoryCluster, number: u8, app: &str) -> IdentityId {
    cluster.apply(pod(number, app));
    world.settle();
    world.create(spec(number)).unwrap().identity
}

/// The identity that the kernel has for an address.
pub(crate) fn mapped(world: &World, prefix: &str) -> Option<u32> {
    let prefix: IpNet = prefix.parse().unwrap();
    world.kernel.state().rows.ipcache.get(&prefix).map(|row| row.identity.0)
}

/// Identities that the policy map of the pod of that number names.
pub(crate) fn peers(world: &World, number: u8) -> Vec<u32> {
    let rows = world.kernel.state().policy_of(spec(number).ifindex).cloned().unwrap();
    let mut ids: Vec<u32> = rows.keys().map(|key| key.identity.0).collect();
    ids.dedup();
    ids
}

pub(crate) fn allocator(world: &World) -> AllocatorView {
    world.ask(&world.node_supervisor().crd.as_ref().unwrap().allocator, AllocatorMsg::Show)
}

pub(crate) fn addresses(world: &World) -> AddressesView {
    world.ask(&world.node_supervisor().crd.as_ref().unwrap().addresses, AddressesMsg::Show)
}

/// All that anybody waits for, in words.
pub(crate) fn waits(world: &World) -> String {
    world
        .node_supervisor()
        .host
        .with_waits(|waits| waits.iter().map(|wait| format!("{}\n", wait.why)).collect())
}
