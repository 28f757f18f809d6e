//! Nodes that rules tell apart by their labels.

use std::time::Duration;

use serde_json::json;

use super::fixture::{NODE, announce, fixture, mapped, said};
use crate::{
    cluster::{
        kvstore::NODES,
        sharing::tests::store::fixture::{make, peers},
    },
    model::{IdentityId, IdentityScope},
    testing::{KvLink, MemoryKvStore, World, allow_from},
};

/// A pod that lets in nodes of zone `a`, and nobody else.
fn zones() -> (World, MemoryKvStore) {
    let (mut world, store) = fixture();
    world.settings.policy.node_selectors = true;
    let nodes = json!({ "fromNodes": [{ "matchLabels": { "topology.kubernetes.io/zone": "a" } }] });
    world.apply("web", [allow_from("web", nodes)]);
    announce_in(&store, "one", "192.0.2.7", Some("a"));
    announce_in(&store, "two", "192.0.2.8", Some("b"));
    announce_in(&store, "three", "192.0.2.9", None);
    world.boot();
    make(&mut world, 1, "web");
    (world, store)
}

fn announce_in(store: &MemoryKvStore, name: &str, ip: &str, zone: Option<&str>) {
    let mut said = said(name, &[("InternalIP", ip)]);
    if let Some(zone) = zone {
        said["Labels"] = json!({ "topology.kubernetes.io/zone": zone });
    }
    announce(store, name, &said);
}

/// The identity of an address, which is one of labels.
fn of_labels(world: &World, ip: &str) -> IdentityId {
    let id = mapped(world, ip).unwrap();
    assert_eq!(id.scope(), IdentityScope::RemoteNode, "{ip} is {id}");
    id
}

fn lets_in(world: &World, id: IdentityId) -> bool {
    peers(world, 1).contains(&id.0)
}

#[test]
fn rules_tell_nodes_apart_by_their_labels() {
    let (mut world, store) = zones();
    let [one, two] = ["192.0.2.7", "192.0.2.8"].map(|ip| of_labels(&world, ip));
    assert_eq!(mapped(&world, "192.0.2.9"), NODE, "it has no labels");
    assert!(one != two && lets_in(&world, one));
    assert!(!lets_in(&world, two) && !lets_in(&world, IdentityId::REMOTE_NODE));
    // A label changes; and a node of those labels comes, and has their number.
    announce_in(&store, "two", "192.0.2.8", Some("a"));
    announce_in(&store, "four", "192.0.2.10", Some("a"));
    world.settle();
    assert_eq!(mapped(&world, "192.0.2.8"), Some(one));
    assert_eq!(mapped(&world, "192.0.2.10"), Some(one));
    // Each of them is a node all the same.
    world.apply("web", [allow_from("web", json!({ "fromEntities": ["remote-node"] }))]);
    assert!(lets_in(&world, one) && lets_in(&world, IdentityId::REMOTE_NODE));
    // With the last of them their number goes.
    for name in ["one", "two", "four"] {
        store.delete(&format!("{NODES}default/{name}"));
    }
    world.settle();
    assert_eq!(mapped(&world, "192.0.2.7"), None);
    assert!(!lets_in(&world, one));
    world.audit();
}

#[test]
fn numbers_of_labels_stay_over_a_restart_without_the_store() {
    let (mut world, store) = zones();
    let before = ["192.0.2.7", "192.0.2.8"].map(|ip| of_labels(&world, ip));
    store.set_link(KvLink::Down);
    world.restart();
    world.advance(Duration::from_secs(60));
    let is_as_before = |world: &World| {
        ["192.0.2.7", "192.0.2.8"].map(|ip| of_labels(world, ip)) == before
            && lets_in(world, before[0])
            && !lets_in(world, before[1])
    };
    assert!(is_as_before(&world) && world.all_ready());
    store.set_link(KvLink::Up);
    world.advance(Duration::from_secs(15));
    assert!(is_as_before(&world));
    world.audit();
}

#[test]
fn who_says_otherwise_by_a_flag_has_it_so_after_a_restart() {
    let (mut world, _) = zones();
    let before = of_labels(&world, "192.0.2.7");
    world.crash();
    world.settings.policy.node_selectors = false;
    world.boot();
    assert_eq!(mapped(&world, "192.0.2.7"), NODE);
    assert!(!lets_in(&world, before));
    world.crash();
    world.settings.policy.node_selectors = true;
    world.boot();
    assert!(lets_in(&world, of_labels(&world, "192.0.2.7")));
    world.audit();
}

#[test]
fn crashes_and_a_kernel_that_refuses_lose_no_node() {
    let (world, store) = zones();
    let before = of_labels(&world, "192.0.2.7");
    let cells = world.life().universe.host.cells();
    for name in ["nodes", "identities", "policy", "ipcache"] {
        let cell = cells.iter().find(|cell| cell.name == name).unwrap();
        world.life().universe.host.poison(cell.id);
        announce_in(&store, "five", "192.0.2.11", Some(name));
        world.settle();
        world.advance(Duration::from_secs(10));
        of_labels(&world, "192.0.2.11");
        assert_eq!(mapped(&world, "192.0.2.7"), Some(before));
    }
    // An address that cannot be written keeps nobody else waiting, and is somebody all the while.
    let five = of_labels(&world, "192.0.2.11");
    world.fate.refuses("PutIpcache");
    announce_in(&store, "five", "192.0.2.11", Some("a"));
    world.settle();
    assert_eq!(mapped(&world, "192.0.2.11"), Some(five));
    world.fate.is_kind();
    announce_in(&store, "six", "192.0.2.12", Some("a"));
    world.settle();
    assert_eq!(mapped(&world, "192.0.2.12"), Some(before));
    world.advance(Duration::from_secs(10));
    assert_eq!(mapped(&world, "192.0.2.11"), Some(before));
    world.audit();
}
