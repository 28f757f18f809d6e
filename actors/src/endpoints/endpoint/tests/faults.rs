//! Tests: a creation that fails at any step leaves nothing.

use std::time::Duration;

use crate::testing::{Residue, Turn, World, pod, spec};

/// A node with one endpoint of another pod.
fn node() -> World {
    let mut world = World::new();
    world.apply("pods", [pod(1, "web"), pod(2, "db")]);
    world.create(spec(1)).unwrap();
    world.advance(Duration::from_secs(1));
    world
}

#[test]
fn a_creation_that_fails_at_any_step_leaves_nothing() {
    let total = {
        let world = node();
        let before = world.fate.steps();
        world.create(spec(2)).unwrap();
        world.fate.steps() - before
    };
    assert!(total > 20, "{total}");
    for nth in 0..total {
        let world = node();
        let before = Residue::of(&world);
        world.fate.at(nth, Turn::Fail);
        let created = world.create(spec(2));
        world.fate.is_kind();
        world.advance(Duration::from_secs(120));
        if created.is_ok() {
            assert!(world.all_ready(), "step {nth}");
            world.delete(crate::endpoints::supervisor::EndpointReference::Pod("ns/pod-2".into()));
            world.advance(Duration::from_secs(120));
        }
        let what = format!("step {nth} failed, answer {:?}", created.err());
        Residue::assert_same(&world, &before, what);
        world.audit();
    }
}
