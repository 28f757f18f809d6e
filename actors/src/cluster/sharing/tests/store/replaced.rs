//! A store that is another one than before, and keys of this node that somebody deletes.

use std::time::Duration;

use serde_json::json;

use super::fixture::{address, fixture, identity, labels, make, mapped, peers, session};
use crate::{
    cluster::kvstore::{ADDRESSES, IDENTITIES, IDENTITY_USERS, NODES, WatcherMsg, WatcherView},
    testing::{KvLink, MemoryKvStore, World, allow_from},
};

const SOON: Duration = Duration::from_secs(2);

fn watchers(world: &World) -> Vec<WatcherView> {
    let actors = world.node_supervisor().kvstore.clone().unwrap();
    actors.watchers.iter().map(|watcher| world.ask(watcher, WatcherMsg::Show)).collect()
}

/// What this node says in the store.
fn own(store: &MemoryKvStore) -> Vec<(String, String)> {
    let here = |(key, value): &(String, String)| {
        key.ends_with("/192.0.2.1") || value.contains("\"192.0.2.1\"")
    };
    let all = store.keys("").into_iter().map(|key| {
        let value = store.get(&key).unwrap();
        (key, value)
    });
    all.filter(here).collect()
}

#[test]
fn a_store_that_was_restored_is_listed_again_and_told_anew() {
    let (mut world, store) = fixture();
    identity(&store, 300, &labels("client"));
    address(&store, "10.0.9.1", 300);
    address(&store, "10.0.9.2", 300);
    world.boot();
    let policy = json!({ "fromEndpoints": [{ "matchLabels": { "app": "client" } }] });
    world.apply("policy", [allow_from("web", policy)]);
    make(&mut world, 1, "web");
    store.back_up();
    // What the store will not know any more: an address, and a pod of this node.
    address(&store, "10.0.9.3", 300);
    make(&mut world, 2, "db");
    for number in 0..40 {
        store.put("noise", &number.to_string());
    }
    // Until the store has said to everyone how far it is.
    world.advance(Duration::from_secs(20));
    assert_eq!(mapped(&world, "10.0.9.3/32"), Some(300));
    let said = own(&store);
    store.restore();
    assert!(own(&store).len() < said.len());
    // These are changes of revisions that were told before.
    address(&store, "10.0.9.4", 300);
    store.delete(&format!("{ADDRESSES}10.0.9.1"));
    world.advance(SOON);
    let rows = ["10.0.9.1/32", "10.0.9.2/32", "10.0.9.3/32", "10.0.9.4/32"];
    assert_eq!(rows.map(|row| mapped(&world, row)), [None, Some(300), None, Some(300)]);
    assert!(peers(&world, 1).contains(&300) && world.all_ready());
    for (key, value) in said {
        assert_eq!(store.get(&key), Some(value), "{key} is told anew");
    }
    for view in watchers(&world) {
        let replaced = view.hearing.replaced.unwrap();
        assert!(replaced.why.starts_with("its revision is "), "{}", replaced.why);
    }
    assert!(session(&world).hearing.replaced.is_some());
    world.audit();
}

#[test]
fn another_store_behind_the_address_is_taken_as_it_is() {
    let (mut world, store) = fixture();
    identity(&store, 300, &labels("client"));
    address(&store, "10.0.9.1", 300);
    world.boot();
    make(&mut world, 1, "web");
    let said = own(&store);
    store.replace();
    for number in 0..100 {
        store.put("noise", &number.to_string());
    }
    identity(&store, 301, &labels("client"));
    address(&store, "10.0.9.5", 301);
    world.advance(SOON);
    assert_eq!(["10.0.9.1/32", "10.0.9.5/32"].map(|row| mapped(&world, row)), [None, Some(301)]);
    for (key, _) in said {
        assert!(store.get(&key).is_some(), "{key} is told to the other store");
    }
    let replaced = session(&world).hearing.replaced.unwrap();
    assert!(replaced.why.starts_with("its cluster is 1, "), "{}", replaced.why);
    world.audit();
}

#[test]
fn nothing_goes_before_a_restored_store_was_read_whole() {
    let (mut world, store) = fixture();
    identity(&store, 300, &labels("client"));
    for last in 1..9 {
        address(&store, &format!("10.0.9.{last}"), 300);
    }
    world.boot();
    store.back_up();
    address(&store, "10.0.9.9", 300);
    // Until the store has said to everyone how often it chose a leader.
    world.advance(Duration::from_secs(20));
    store.restore();
    store.set_link(KvLink::Silent);
    world.advance(Duration::from_secs(3600));
    assert!((1..10).all(|last| mapped(&world, &format!("10.0.9.{last}/32")) == Some(300)));
    store.hang_up();
    store.set_link(KvLink::Up);
    world.advance(Duration::from_secs(60));
    assert_eq!(mapped(&world, "10.0.9.9/32"), None);
    assert!((1..9).all(|last| mapped(&world, &format!("10.0.9.{last}/32")) == Some(300)));
}

#[test]
fn what_somebody_deletes_of_this_node_comes_back_at_once() {
    let (mut world, store) = fixture();
    world.boot();
    make(&mut world, 1, "web");
    make(&mut world, 2, "db");
    let said = own(&store);
    let below = |prefix: &str| said.iter().filter(|(key, _)| key.starts_with(prefix)).count();
    assert_eq!([IDENTITY_USERS, ADDRESSES, NODES].map(below), [2, 4, 1]);
    let numbers = store.keys(IDENTITIES);
    assert_eq!(numbers.len(), 2);
    let all = said.iter().map(|(key, _)| key.clone()).chain(numbers);
    let all: Vec<_> = all.map(|key| (store.get(&key).unwrap(), key)).collect();
    for (value, key) in &all {
        store.delete(key);
        world.advance(Duration::from_millis(100));
        assert_eq!(store.get(key).as_ref(), Some(value), "{key}");
    }
    // All at once, and while the watch was cut.
    store.set_link(KvLink::Down);
    world.advance(Duration::from_secs(1));
    all.iter().for_each(|(_, key)| store.delete(key));
    store.set_link(KvLink::Up);
    world.advance(Duration::from_secs(20));
    for (value, key) in &all {
        assert_eq!(store.get(key).as_ref(), Some(value), "{key}");
    }
    assert_eq!(session(&world).announced, 7);
    // What somebody writes over is written again with the next beat.
    let (_, users) = all.iter().find(|(_, key)| key.starts_with(IDENTITY_USERS)).unwrap();
    let value = store.get(users);
    store.put(users, "77");
    world.advance(Duration::from_secs(20));
    assert_eq!(store.get(users), value);
    world.audit();
}
