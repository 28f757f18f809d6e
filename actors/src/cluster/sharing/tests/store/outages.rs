//! Tests: the store is away, silent or forgetful, a lease ends, an actor crashes; nothing is lost.

use std::time::Duration;

use serde_json::json;

use super::fixture::{address, addresses, fixture, identity, labels, make, mapped, peers, session};
use crate::{
    cluster::kvstore::ADDRESSES,
    testing::{KvLink, allow_from},
};

const CLIENT: &str = "10.0.9.1/32";

fn policy() -> serde_json::Value {
    allow_from("web", json!({ "fromEndpoints": [{ "matchLabels": { "app": "client" } }] }))
}

#[test]
fn a_restart_without_the_store_forgets_nothing_of_the_cluster() {
    let (mut world, store) = fixture();
    identity(&store, 300, &labels("client"));
    address(&store, "10.0.9.1", 300);
    address(&store, "10.0.9.2", 300);
    // Numbers that need nobody to hand them out.
    address(&store, "10.0.9.3", 104);
    world.boot();
    world.apply("policy", [policy()]);
    make(&mut world, 1, "web");
    assert!(peers(&world, 1).contains(&300));
    world.crash();
    store.set_link(KvLink::Down);
    store.delete(&format!("{ADDRESSES}10.0.9.2"));
    let writes = world.kernel.state().rows.ipcache.clone();
    world.boot();
    world.advance(Duration::from_secs(3600));
    assert!(world.all_ready() && world.report().finished);
    assert_eq!(world.kernel.state().rows.ipcache, writes);
    assert!(peers(&world, 1).contains(&300));
    // Once the store has said what there is, the rest goes.
    store.set_link(KvLink::Up);
    world.advance(Duration::from_secs(30));
    assert_eq!(mapped(&world, CLIENT), Some(300));
    assert_eq!(mapped(&world, "10.0.9.2/32"), None);
    assert!(addresses(&world).synced);
    store.delete(&format!("{ADDRESSES}10.0.9.1"));
    world.advance(Duration::from_secs(1));
    assert!(!peers(&world, 1).contains(&300));
    world.audit();
}

#[test]
fn a_watch_that_falls_silent_is_noticed_and_goes_on_where_it_was() {
    let (mut world, store) = fixture();
    world.boot();
    store.set_link(KvLink::Silent);
    identity(&store, 300, &labels("client"));
    address(&store, "10.0.9.1", 300);
    world.advance(Duration::from_secs(120));
    assert_eq!(mapped(&world, CLIENT), None);
    let unreachable = session(&world).unreachable.unwrap();
    assert!(unreachable.error.contains("no answer before the deadline"), "{}", unreachable.error);
    // The connections that stood then say nothing any more; new ones do.
    store.hang_up();
    store.set_link(KvLink::Up);
    world.advance(Duration::from_secs(60));
    assert_eq!(mapped(&world, CLIENT), Some(300));
    assert_eq!(session(&world).unreachable, None);
}

#[test]
fn a_store_that_forgot_what_came_since_is_listed_again() {
    let (mut world, store) = fixture();
    identity(&store, 300, &labels("client"));
    address(&store, "10.0.9.1", 300);
    address(&store, "10.0.9.2", 300);
    world.boot();
    store.set_link(KvLink::Down);
    world.advance(Duration::from_secs(20));
    store.delete(&format!("{ADDRESSES}10.0.9.1"));
    address(&store, "10.0.9.3", 300);
    store.compact();
    store.set_link(KvLink::Up);
    world.advance(Duration::from_secs(30));
    let now = ["10.0.9.1/32", "10.0.9.2/32", "10.0.9.3/32"].map(|prefix| mapped(&world, prefix));
    assert_eq!(now, [None, Some(300), Some(300)]);
}

#[test]
fn a_lease_that_ran_out_is_granted_anew_and_everything_announced_again() {
    let (mut world, store) = fixture();
    world.boot();
    make(&mut world, 1, "web");
    let before = store.keys("");
    store.expire();
    world.advance(Duration::from_secs(1));
    let after_expiry = store.keys("").len();
    assert!(after_expiry <= before.len());
    world.advance(Duration::from_secs(60));
    assert_eq!(store.keys(""), before);
    assert_eq!(session(&world).leases, 2);
    // The same when it ran out unseen.
    store.set_link(KvLink::Down);
    world.advance(Duration::from_secs(2000));
    assert!(store.keys(ADDRESSES).is_empty());
    store.set_link(KvLink::Up);
    world.advance(Duration::from_secs(60));
    assert_eq!(store.keys(""), before);
}

#[test]
fn crashes_of_its_actors_lose_nothing() {
    let (mut world, store) = fixture();
    identity(&store, 300, &labels("client"));
    address(&store, "10.0.9.1", 300);
    world.boot();
    make(&mut world, 1, "web");
    let before = store.keys("");
    let actors = world.node_supervisor().kvstore.clone().unwrap();
    let cells = [actors.session.id(), actors.allocator.id(), actors.addresses.id()];
    for cell in cells.into_iter().chain(actors.watchers.iter().map(|watcher| watcher.id())) {
        world.node_supervisor().host.poison(cell);
        // Each has something to hear of, over which it falls.
        address(&store, "10.0.9.2", 300);
        identity(&store, 301, &labels(&cell.to_string()));
        world.advance(Duration::from_secs(40));
        store.delete(&format!("{ADDRESSES}10.0.9.2"));
        make(&mut world, 2, "db");
        world.advance(Duration::from_secs(40));
        world.delete(crate::endpoints::supervisor::EndpointReference::Address(
            "10.0.0.2".parse().unwrap(),
        ));
        world.advance(Duration::from_secs(40));
        let rows = [CLIENT, "10.0.9.2/32"].map(|prefix| mapped(&world, prefix));
        assert_eq!(rows, [Some(300), None], "{cell}");
        let left: Vec<_> = store.keys("").into_iter().filter(|key| !before.contains(key)).collect();
        // Numbers that nobody uses any more are the operator's to remove.
        assert_eq!(left.len(), 2, "{cell}: {left:?}");
    }
    world.audit();
}
