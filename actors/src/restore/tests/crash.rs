//! Tests: the agent dies at any step, or its restore supervisor crashes; all comes back.

use std::time::Duration;

use serde_json::json;

use crate::{
    endpoints::supervisor::EndpointReference,
    restore::RestoreMsg,
    testing::{Residue, Turn, World, allow_from, crash, pod, spec},
};

/// A node with two endpoints and a policy.
fn node() -> World {
    let mut world = World::new();
    world.apply("pods", [pod(1, "web"), pod(2, "db"), pod(3, "mail")]);
    world.apply("policy", [policy("db")]);
    world.create(spec(1)).unwrap();
    world.create(spec(2)).unwrap();
    world.advance(Duration::from_secs(1));
    world
}

fn policy(from: &str) -> serde_json::Value {
    let cidr = json!([{ "cidr": "192.0.2.0/24" }]);
    let endpoints = json!([{ "matchLabels": { "app": from } }]);
    match from {
        "world" => allow_from("web", json!({ "fromCIDRSet": cidr })),
        _ => allow_from("web", json!({ "fromEndpoints": endpoints })),
    }
}

/// Lets the agent die before the `nth` step of what is done to a node, for all n; then starts it
/// again. Every endpoint of before is back with its numbers, and nothing is left over.
fn dies(what: impl Fn(&mut World), check: impl Fn(&World, usize)) {
    for nth in 0.. {
        let mut world = node();
        let before = world.list();
        world.fate.at(nth, Turn::Die);
        what(&mut world);
        let died = world.fate.is_dead();
        world.restart();
        world.advance(Duration::from_secs(60));
        assert!(world.all_ready(), "step {nth}");
        assert!(world.report().finished, "step {nth}");
        world.audit();
        let after = world.list();
        for view in before {
            let Some(now) = after.iter().find(|now| now.id == view.id) else { continue };
            assert_eq!(now.spec.addresses, view.spec.addresses, "step {nth}");
            assert_eq!(now.identity, view.identity, "step {nth}");
        }
        check(&world, nth);
        if !died {
            assert!(nth > 0, "{nth}");
            return;
        }
    }
}

#[test]
fn c_15446_the_agent_may_die_at_any_step_of_a_creation() {
    dies(
        |world| {
            drop(world.begin_create(spec(3)));
            world.settle();
        },
        |world, nth| {
            assert!(world.list().len() >= 2);
            // Kubernetes heard no answer: it deletes, and makes it anew.
            world.delete(EndpointReference::Pod("ns/pod-3".into()));
            world.advance(Duration::from_secs(1));
            assert!(world.create(spec(3)).is_ok(), "step {nth}");
            world.audit();
        },
    );
}

#[test]
fn the_agent_may_die_at_any_step_of_a_deletion() {
    let clean = {
        let world = node();
        world.delete(EndpointReference::Pod("ns/pod-2".into()));
        world.advance(Duration::from_secs(1));
        Residue::of(&world)
    };
    dies(
        |world| {
            let target = EndpointReference::Pod("ns/pod-2".into());
            let endpoints = &world.node_supervisor().endpoints;
            drop(world.pose(endpoints, |reply| {
                crate::endpoints::supervisor::EndpointsMsg::Delete { target, reply }
            }));
            world.settle();
        },
        |world, nth| {
            world.delete(EndpointReference::Pod("ns/pod-2".into()));
            world.advance(Duration::from_secs(1));
            Residue::assert_alike(world, &clean, format_args!("step {nth}"));
        },
    );
}

#[test]
fn the_agent_may_die_at_any_step_of_a_policy_change() {
    for next in ["mail", "world"] {
        dies(|world| world.apply("policy", [policy(next)]), |_, _| {});
    }
}

#[test]
fn the_agent_may_die_at_any_step_of_a_restart() {
    for nth in 0.. {
        let mut world = node();
        world.crash();
        // A restart has something to do when rows are missing.
        world.kernel.tamper(|state| {
            state.rows.config.clear();
            state.rows.routes.clear();
        });
        world.fate.at(nth, Turn::Die);
        world.boot();
        let died = world.fate.is_dead();
        world.restart();
        world.advance(Duration::from_secs(60));
        assert!(world.all_ready() && world.list().len() == 2, "step {nth}");
        world.audit();
        if !died {
            assert!(nth > 5, "{nth}");
            return;
        }
    }
}

#[test]
fn restoring_goes_on_when_its_supervisor_crashes_at_any_moment() {
    for moment in 0..60 {
        let mut world = node();
        let before = Residue::of(&world);
        world.crash();
        world.start();
        for _ in 0..moment {
            let universe = &world.life().universe;
            let _ = universe.step(0) || world.kernel.step(0) || world.disk.step();
        }
        world.node_supervisor().restore.tell(RestoreMsg::Report(crash())).unwrap();
        world.settle();
        world.advance(Duration::from_secs(120));
        assert!(world.report().finished, "moment {moment}");
        assert!(world.all_ready(), "moment {moment}");
        assert_eq!(world.list().len(), 2);
        Residue::assert_same(&world, &before, moment);
        world.audit();
        assert!(world.create(spec(3)).is_ok());
    }
}
