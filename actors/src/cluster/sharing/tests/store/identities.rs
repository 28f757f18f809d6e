//! Tests: identities in the store, shared with other nodes and with agents of Cilium.

use std::{collections::BTreeSet, time::Duration};

use serde_json::json;

use super::fixture::{address, allocator, fixture, identity, labels, make, mapped, peers};
use crate::{
    cluster::kvstore::{ADDRESSES, IDENTITIES, IDENTITY_LOCKS, IDENTITY_USERS},
    model::IdentityId,
    testing::{KvLink, allow_from},
};

fn user(app: &str, node: &str) -> String {
    format!("{IDENTITY_USERS}{}/{node}", labels(app))
}

#[test]
fn a_new_set_of_labels_gets_a_number_that_the_cluster_knows() {
    let (mut world, store) = fixture();
    world.boot();
    let id = make(&mut world, 1, "web");
    assert_eq!(store.get(&format!("{IDENTITIES}{id}")), Some(labels("web")));
    assert_eq!(store.get(&user("web", "192.0.2.1")), Some(id.to_string()));
    assert_eq!(make(&mut world, 2, "web"), id);
    assert_eq!(store.keys(IDENTITIES).len(), 1);
}

#[test]
fn labels_that_have_a_number_keep_it() {
    let (mut world, store) = fixture();
    identity(&store, 4242, &labels("web"));
    world.boot();
    assert_eq!(make(&mut world, 1, "web"), IdentityId(4242));
    // Also where the operator removed the number while another node still uses it.
    store.put(&user("db", "192.0.2.7"), "5000");
    store.put(&format!("{}x=y;/192.0.2.8", user("db", "").trim_end_matches('/')), "6000");
    world.apply("pod-2", [crate::testing::pod(2, "db")]);
    let made = world.begin_create(crate::testing::spec(2));
    world.advance(Duration::from_secs(2));
    drop(made);
    assert_eq!(store.get(&format!("{IDENTITIES}5000")), Some(labels("db")));
    assert_eq!(store.get(&user("db", "192.0.2.1")).as_deref(), Some("5000"));
}

#[test]
fn while_an_agent_of_cilium_chooses_nobody_else_does() {
    let (mut world, store) = fixture();
    world.boot();
    let lock = format!("{IDENTITY_LOCKS}{}/694d", labels("web"));
    store.put(&lock, "");
    world.apply("pod-1", [crate::testing::pod(1, "web")]);
    let mut made = world.begin_create(crate::testing::spec(1));
    world.advance(Duration::from_secs(3));
    assert!(made.now().is_none() && store.keys(IDENTITIES).is_empty());
    identity(&store, 8000, &labels("web"));
    store.put(&user("web", "192.0.2.7"), "8000");
    store.delete(&lock);
    world.advance(Duration::from_secs(3));
    assert_eq!(made.now().unwrap().unwrap().unwrap().identity, IdentityId(8000));
}

#[test]
fn without_the_store_known_pods_come_back_and_new_ones_wait_and_say_why() {
    let (mut world, store) = fixture();
    world.boot();
    let id = make(&mut world, 1, "web");
    world.crash();
    store.set_link(KvLink::Down);
    world.boot();
    world.apply("pod-1", [crate::testing::pod(1, "web")]);
    world.advance(Duration::from_secs(5));
    assert!(world.all_ready());
    assert_eq!(mapped(&world, "10.0.0.1/32").map(IdentityId), Some(id));
    world.apply("pod-2", [crate::testing::pod(2, "db")]);
    let mut made = world.begin_create(crate::testing::spec(2));
    world.advance(Duration::from_secs(20));
    assert!(made.now().is_none());
    let why = world.node_supervisor().host.with_waits(|waits| {
        let all = waits.iter().map(|wait| wait.why.to_string());
        all.collect::<Vec<_>>().join("\n")
    });
    assert!(why.contains("it is unreachable since 00:00:0"), "{why}");
    assert!(why.contains("connection refused") && why.contains("retry in "), "{why}");
    store.set_link(KvLink::Up);
    world.advance(Duration::from_secs(30));
    assert!(made.now().unwrap().unwrap().is_ok());
    assert_eq!(store.get(&user("web", "192.0.2.1")), Some(id.to_string()));
    assert_eq!(store.keys(ADDRESSES).len(), 4);
    world.audit();
}

#[test]
fn a_number_in_use_that_the_operator_removed_is_written_again() {
    let (mut world, store) = fixture();
    world.boot();
    let id = make(&mut world, 1, "web");
    store.delete(&format!("{IDENTITIES}{id}"));
    world.settle();
    assert_eq!(store.get(&format!("{IDENTITIES}{id}")), Some(labels("web")));
}

#[test]
fn a_number_stays_although_another_node_gave_the_same_labels_one_too() {
    let (mut world, store) = fixture();
    world.boot();
    let id = make(&mut world, 1, "web");
    assert_ne!(id, IdentityId(300));
    identity(&store, 300, &labels("web"));
    address(&store, "10.0.9.1", 300);
    world.advance(Duration::from_secs(20));
    assert_eq!(mapped(&world, "10.0.9.1/32"), Some(300));
    world.crash();
    world.boot();
    world.advance(Duration::from_secs(20));
    assert_eq!(world.list()[0].identity, id);
    assert_eq!(make(&mut world, 2, "web"), id);
    assert_eq!(mapped(&world, "10.0.9.1/32"), Some(300));
    assert_eq!(store.get(&user("web", "192.0.2.1")), Some(id.to_string()));
    assert_eq!(allocator(&world).disputed, BTreeSet::new());
    world.audit();
}

#[test]
fn endpoints_leave_a_number_that_means_something_else_in_the_cluster() {
    let (mut world, store) = fixture();
    // The run before numbered by itself.
    world.kvstore = None;
    world.boot();
    let id = make(&mut world, 1, "web");
    world.crash();
    identity(&store, id.0, &labels("db"));
    address(&store, "10.0.9.1", id.0);
    world.kvstore = Some(store.clone());
    world.boot();
    world.advance(Duration::from_secs(20));
    assert!(world.all_ready());
    let moved = world.list()[0].identity;
    assert_ne!(moved, id);
    assert_eq!(store.get(&format!("{IDENTITIES}{moved}")), Some(labels("web")));
    let rows = ["10.0.0.1/32", "10.0.9.1/32"].map(|prefix| mapped(&world, prefix));
    assert_eq!(rows, [Some(moved.0), Some(id.0)]);
    assert_eq!(store.keys(ADDRESSES).len(), 3);
    assert_eq!(allocator(&world).disputed, BTreeSet::new());
    // Its policy follows changes as before.
    world.apply(
        "policy",
        [allow_from("web", json!({ "fromEndpoints": [{ "matchLabels": { "app": "db" } }] }))],
    );
    assert!(peers(&world, 1).contains(&id.0));
    world.audit();
}
