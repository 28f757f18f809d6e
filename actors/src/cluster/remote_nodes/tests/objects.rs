//! Tests: nodes are known from CiliumNodes or plain Nodes, unless there is a store.

use std::time::Duration;

use serde_json::{Value, json};

use super::fixture::{NODE, fixture, mapped, node, view};
use crate::{
    cluster::{allocator, kvstore::NODES},
    model::IdentityId,
    testing::{MemoryCluster, World},
};

fn cilium_node(name: &str, ip: &str) -> Value {
    json!({
        "apiVersion": "cilium.io/v2", "kind": "CiliumNode",
        "metadata": { "name": name, "labels": { "zone": "a" } },
        "spec": {
            "addresses": [
                { "type": "InternalIP", "ip": ip }, { "type": "Hostname", "ip": "text" },
            ],
            "health": { "ipv4": "10.9.0.3" }, "ingress": {},
            "ipam": { "podCIDRs": ["10.9.0.0/24"] },
        },
    })
}

fn village(mode: allocator::Mode) -> (World, MemoryCluster) {
    let (mut world, cluster) = (node("here", 1), MemoryCluster::new());
    world.cluster = Some(cluster.clone());
    world.settings.identity_allocation = mode;
    (world, cluster)
}

#[test]
fn without_a_store_nodes_are_cilium_nodes() {
    for mode in [allocator::Mode::Crd, allocator::Mode::Kvstore] {
        let (mut world, cluster) = village(mode);
        cluster.apply(cilium_node("there", "192.0.2.7"));
        cluster.apply(cilium_node("here", "192.0.2.9"));
        world.boot();
        assert_eq!(mapped(&world, "192.0.2.7"), NODE);
        assert_eq!(mapped(&world, "10.9.0.3"), Some(IdentityId::HEALTH));
        assert_eq!(mapped(&world, "192.0.2.9"), None);
        cluster.apply(cilium_node("there", "192.0.2.8"));
        world.settle();
        let rows = ["192.0.2.7", "192.0.2.8"].map(|ip| mapped(&world, ip));
        assert_eq!(rows, [None, NODE]);
        cluster.apply(cilium_node("torn", "192.0.2"));
        world.settle();
        assert_eq!(view(&world).known, 1);
        // A life without the server keeps what was known, and the next one with it learns the rest.
        world.crash();
        cluster.set_down(true);
        world.boot();
        world.advance(Duration::from_secs(300));
        assert_eq!(mapped(&world, "192.0.2.8"), NODE);
        cluster.delete(&cilium_node("there", "192.0.2.8"));
        cluster.set_down(false);
        world.advance(Duration::from_secs(300));
        assert_eq!(mapped(&world, "192.0.2.8"), None);
        world.audit();
    }
}

fn plain_node(name: &str, ip: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": { "name": name, "labels": {} },
        "spec": { "podCIDR": "10.9.0.0/24", "podCIDRs": ["10.9.0.0/24"] },
        "status": { "addresses": [
            { "type": "InternalIP", "address": ip }, { "type": "Hostname", "address": name },
        ] },
    })
}

#[test]
fn where_nobody_defined_cilium_nodes_they_are_plain_nodes() {
    let (mut world, cluster) = village(allocator::Mode::Kvstore);
    cluster.define("ciliumnodes.cilium.io", false);
    cluster.apply(plain_node("there", "192.0.2.7"));
    cluster.apply(plain_node("here", "192.0.2.9"));
    world.boot();
    world.advance(Duration::from_secs(30));
    assert_eq!(mapped(&world, "192.0.2.7"), NODE);
    assert_eq!(mapped(&world, "192.0.2.9"), None);
    assert_eq!((view(&world).plain, view(&world).plain_named), (1, vec!["there".to_owned()]));
    let list = world.ask(
        world.node_supervisor().nodes.as_ref().unwrap(),
        crate::cluster::remote_nodes::RemoteNodesMsg::List,
    );
    let pools: Vec<_> = list.nodes.values().map(|node| node.pools.ipv4).collect();
    assert_eq!(pools, ["10.9.0.0/24".parse().ok()]);
    cluster.apply(plain_node("there", "192.0.2.6"));
    world.settle();
    assert_eq!(["192.0.2.7", "192.0.2.6"].map(|ip| mapped(&world, ip)), [None, NODE]);
    // A CiliumNode says more; without it the Node's word counts again.
    cluster.define("ciliumnodes.cilium.io", true);
    cluster.apply(cilium_node("there", "192.0.2.8"));
    world.advance(Duration::from_secs(60));
    assert_eq!(["192.0.2.6", "192.0.2.8"].map(|ip| mapped(&world, ip)), [None, NODE]);
    cluster.apply(plain_node("there", "192.0.2.5"));
    world.settle();
    assert_eq!((mapped(&world, "192.0.2.5"), view(&world).plain), (None, 0));
    cluster.delete(&cilium_node("there", "192.0.2.8"));
    world.settle();
    assert_eq!(["192.0.2.5", "192.0.2.8"].map(|ip| mapped(&world, ip)), [NODE, None]);
    cluster.delete(&plain_node("there", "192.0.2.5"));
    world.settle();
    assert_eq!(view(&world).known, 0);
    world.audit();
}

#[test]
fn where_no_other_node_has_a_cilium_node_they_are_plain_nodes_after_a_while() {
    let (mut world, cluster) = village(allocator::Mode::Crd);
    cluster.apply(plain_node("there", "192.0.2.7"));
    cluster.apply(plain_node("here", "192.0.2.9"));
    world.boot();
    world.advance(Duration::from_secs(50));
    assert_eq!(view(&world).plain, 0);
    world.advance(Duration::from_secs(90));
    assert_eq!(mapped(&world, "192.0.2.7"), NODE);
    assert_eq!(view(&world).plain_named, ["there".to_owned()]);
    // Its agent comes.
    cluster.apply(cilium_node("there", "192.0.2.8"));
    world.settle();
    assert_eq!(["192.0.2.7", "192.0.2.8"].map(|ip| mapped(&world, ip)), [None, NODE]);
    assert_eq!(view(&world).plain, 0);
    world.audit();
}

#[test]
fn where_others_have_cilium_nodes_plain_nodes_are_not_followed() {
    let (mut world, cluster) = village(allocator::Mode::Crd);
    cluster.apply(plain_node("there", "192.0.2.7"));
    for (name, ip) in [("one", "192.0.2.21"), ("two", "192.0.2.22")] {
        cluster.apply(cilium_node(name, ip));
    }
    world.boot();
    world.advance(Duration::from_secs(600));
    assert_eq!((mapped(&world, "192.0.2.7"), view(&world).plain), (None, 0));
    world.audit();
}

#[test]
fn with_a_store_they_are_not_read_and_the_node_s_own_object_is_announced() {
    let (mut world, store) = fixture();
    let cluster = MemoryCluster::new();
    world.cluster = Some(cluster.clone());
    let object = |ip: &str| {
        json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": { "name": "here", "labels": { "zone": "a" } },
            "status": { "addresses": [
                { "type": "InternalIP", "address": "192.0.2.1" },
                { "type": "ExternalIP", "address": ip },
                { "type": "Hostname", "address": "here" },
            ] },
        })
    };
    cluster.apply(cilium_node("there", "192.0.2.7"));
    cluster.apply(object("198.51.100.1"));
    world.boot();
    assert_eq!(mapped(&world, "192.0.2.7"), None);
    let said = |external: &str| {
        json!([
            { "Type": "InternalIP", "IP": "192.0.2.1" },
            { "Type": "ExternalIP", "IP": external },
            { "Type": "CiliumInternalIP", "IP": "10.1.0.254" },
        ])
    };
    let announced = || {
        let value = store.get(&format!("{NODES}default/here")).unwrap();
        let value: Value = serde_json::from_str(&value).unwrap();
        assert_eq!(value["Labels"], json!({ "zone": "a" }));
        value["IPAddresses"].clone()
    };
    assert_eq!(announced(), said("198.51.100.1"));
    // What a Node said counts until it says something else, also in a life that cannot ask.
    world.crash();
    cluster.set_down(true);
    world.boot();
    assert_eq!(announced(), said("198.51.100.1"));
    store.expire();
    world.advance(Duration::from_secs(60));
    assert_eq!(announced(), said("198.51.100.1"));
    cluster.set_down(false);
    cluster.apply(object("198.51.100.2"));
    world.advance(Duration::from_secs(60));
    assert_eq!(announced(), said("198.51.100.2"));
}
