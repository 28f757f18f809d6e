//! Tests: when endpoints are held to policy is changed while the agent runs.

use std::time::Duration;

use serde_json::json;

use crate::{
    model::EndpointId,
    policy::rules::{Enforcement, PolicyMsg},
    testing::{World, allow_from, pod, spec},
};

/// A web pod that lets a db pod in, and that one, which no rule selects.
fn two_pods() -> World {
    let mut world = World::new();
    let db = json!({ "fromEndpoints": [{ "matchLabels": { "app": "db" } }] });
    world.apply("pods", [pod(1, "web"), pod(2, "db")]);
    world.apply("policy", [allow_from("web", db)]);
    for number in [1, 2] {
        world.create(spec(number)).unwrap();
    }
    world.advance(Duration::from_secs(1));
    world
}

/// Who is held to policy when packets come in: the web pod, and the db pod.
fn enforced(world: &World) -> [bool; 2] {
    [1, 2].map(|id| world.get(EndpointId(id)).realised.ingress_enforced)
}

fn enforce(world: &World, enforcement: Enforcement) {
    let policy = &world.node_supervisor().policy;
    world.ask(policy, |reply| PolicyMsg::Enforcement { enforcement, reply });
}

#[test]
fn all_endpoints_are_held_to_policy_or_none_and_as_the_rules_say_again() {
    let world = two_pods();
    assert_eq!(enforced(&world), [true, false]);
    let rows = |world: &World| {
        [101, 102].map(|number| world.kernel.state().policy_of(number).unwrap().clone())
    };
    let before = rows(&world);
    for (enforcement, expected) in [
        (Enforcement::Always, [true, true]),
        (Enforcement::Never, [false, false]),
        (Enforcement::Default, [true, false]),
    ] {
        enforce(&world, enforcement);
        let mut in_force = world.pose(&world.node_supervisor().policy, PolicyMsg::Idle);
        world.advance(Duration::from_secs(1));
        assert!(matches!(in_force.now(), Some(Ok(()))), "{enforcement:?}");
        assert_eq!(enforced(&world), expected, "{enforcement:?}");
        let changed = rows(&world) != before;
        assert_eq!(changed, enforcement != Enforcement::Default, "{enforcement:?}");
        world.audit();
    }
}

/// A change that is under way is not lost, and the last one counts.
#[test]
fn changes_in_a_row_are_made_in_their_order() {
    let mut world = two_pods();
    for enforcement in [Enforcement::Always, Enforcement::Never, Enforcement::Always] {
        enforce(&world, enforcement);
    }
    world.apply("policy", []);
    world.advance(Duration::from_secs(2));
    assert_eq!(enforced(&world), [true, true]);
    // The rules of the flags count again in the next life.
    world.restart();
    world.advance(Duration::from_secs(10));
    assert_eq!(enforced(&world), [false, false]);
    world.audit();
}

/// Before the first rules of a life nothing becomes of it, and with them it counts.
#[test]
fn what_is_changed_before_the_first_rules_comes_with_them() {
    let mut world = two_pods();
    let rows = |world: &World| world.kernel.state().policy_of(102).unwrap().clone();
    let before = rows(&world);
    world.crash();
    world.wake();
    world.settle();
    enforce(&world, Enforcement::Always);
    let mut in_force = world.pose(&world.node_supervisor().policy, PolicyMsg::Idle);
    world.advance(Duration::from_secs(1));
    assert!(in_force.now().is_none(), "no rules are known");
    assert_eq!(rows(&world), before, "the earlier life's");
    world.tell_manifests(&["pods".to_owned(), "policy".to_owned()]);
    world.advance(Duration::from_secs(10));
    assert!(matches!(in_force.now(), Some(Ok(()))));
    assert_eq!(enforced(&world), [true, true]);
    world.audit();
}
