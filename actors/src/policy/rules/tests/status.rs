//! Tests: the status of each file is up to date, also when no rule changes.

use std::time::Duration;

use serde_json::json;

use crate::{
    policy::rules::PolicyMsg,
    testing::{World, allow_from},
};

/// File and error of each policy, as the agent shows them.
fn status(world: &World) -> Vec<(String, bool)> {
    let show = |reply| PolicyMsg::Show { endpoints: Vec::new(), reply };
    let view = world.ask(&world.node_supervisor().policy, show);
    view.policies.into_iter().map(|status| (status.source, status.error.is_some())).collect()
}

#[test]
fn a_file_that_changes_no_rule_is_still_told_of() {
    let mut world = World::new();
    world.advance(Duration::from_secs(1));
    let revision =
        |world: &World| world.ask(&world.node_supervisor().policy, PolicyMsg::Written).revision;
    let before = revision(&world);
    let refused = |file: &str| vec![(file.to_owned(), true)];
    world.tell_unreadable("torn");
    world.settle();
    assert_eq!(status(&world), refused("torn"));
    // It is forgotten with the file, and so is the one that replaced it.
    world.apply("torn", []);
    assert_eq!(status(&world), []);
    world.apply("wrong", [allow_from("web", json!({ "fromCIDR": ["rubbish"] }))]);
    assert_eq!(status(&world), refused("wrong"));
    world.apply("wrong", [allow_from("web", json!({ "fromCIDR": ["192.0.2.0/24"] }))]);
    assert_eq!(status(&world), [("wrong".to_owned(), false)]);
    // A newer version that is refused leaves the older one in force, and says so.
    let good = revision(&world);
    assert!(good > before);
    world.apply("wrong", [allow_from("web", json!({ "fromCIDR": ["rubbish"] }))]);
    assert_eq!((status(&world), revision(&world)), (refused("wrong"), good));
}
