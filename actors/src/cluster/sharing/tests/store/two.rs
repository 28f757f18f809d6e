//! Tests: two nodes on one store agree on identity numbers and see each other's addresses.

use std::time::Duration;

use super::fixture::{fixture, make, mapped};
use crate::{
    endpoints::supervisor::EndpointReference,
    testing::{MemoryKvStore, World, pod, spec},
};

/// Another node beside the one of the fixture, with addresses of its own.
fn neighbour(store: &MemoryKvStore) -> World {
    let mut world = World::off();
    world.kvstore = Some(store.clone());
    world.settings.kvstore.node = "there".to_owned();
    world.settings.kvstore.address = "192.0.2.2".parse().unwrap();
    // The same randomness: both choose the same numbers, and one must give way.
    world
}

/// Both go on until neither has anything to do.
fn run(worlds: &[&World]) {
    for _ in 0..8 {
        worlds.iter().for_each(|world| world.advance(Duration::from_secs(1)));
    }
}

#[test]
fn two_nodes_share_numbers_and_addresses() {
    let (mut here, store) = fixture();
    let mut there = neighbour(&store);
    here.boot();
    there.boot();
    let web = make(&mut here, 1, "web");
    run(&[&here, &there]);
    assert_eq!(mapped(&there, "10.0.0.1/32"), Some(web.0));
    assert_eq!(make(&mut there, 2, "web"), web);
    // Both want a number for new labels at the same time: one for each set, the same for one.
    let sets = [(3, "db"), (4, "cache")];
    let mut made = Vec::new();
    for (number, app) in sets {
        for (world, number) in [(&mut here, number), (&mut there, number + 4)] {
            world.apply(&format!("pod-{number}"), [pod(number, app)]);
            made.push(world.begin_create(spec(number)));
        }
    }
    run(&[&here, &there]);
    let ids: Vec<_> =
        made.iter_mut().map(|made| made.now().unwrap().unwrap().unwrap().identity).collect();
    assert!(ids[0] == ids[1] && ids[2] == ids[3] && ids[0] != ids[2], "{ids:?}");
    for (world, number, id) in [(&here, 7, ids[1]), (&there, 3, ids[0]), (&there, 4, ids[2])] {
        assert_eq!(mapped(world, &format!("10.0.0.{number}/32")), Some(id.0));
    }
    // One restarts while the other one's pods change.
    here.crash();
    there.delete(EndpointReference::Address("10.0.0.7".parse().unwrap()));
    let client = make(&mut there, 9, "client");
    here.boot();
    run(&[&here, &there]);
    assert_eq!(mapped(&here, "10.0.0.7/32"), None);
    assert_eq!(mapped(&here, "10.0.0.9/32"), Some(client.0));
    here.audit();
    there.audit();
}
