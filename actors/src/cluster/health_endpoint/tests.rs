//! Tests: the health endpoint comes, stays and goes, also when its place is lost or the agent dies at any step.

use std::{net::IpAddr, path::Path, sync::Arc, time::Duration};

use super::{HealthEndpointMsg, HealthEndpointSettings, HealthEndpointView};
use crate::{
    endpoints::{
        endpoint::{CreateError, EndpointSpec, EndpointView},
        ipam::IpamMsg,
        supervisor::EndpointReference,
    },
    model::{Addresses, EndpointId, Families, IdentityId, Labels},
    ports::KernelOp,
    state_directory::HealthRecord,
    testing::{MemoryHealth, Turn, World, pod, spec},
};

fn settings() -> HealthEndpointSettings {
    HealthEndpointSettings {
        node: "here".to_owned(),
        families: Families { ipv4: true, ipv6: false },
        router: Addresses { ipv4: "10.0.0.254".parse().ok(), ipv6: None },
        mtu: 1450,
        before: Addresses::default(),
        generation: 0,
    }
}

/// A node without an agent, whose agents will make a health endpoint.
fn off() -> (World, MemoryHealth) {
    let mut world = World::off();
    let health = MemoryHealth::new(&world.fate, &world.kernel);
    world.health = Some(health.clone());
    world.settings.health_endpoint = Some(settings());
    (world, health)
}

/// The same with a pod, and an agent that has been there for a while.
fn node() -> (World, MemoryHealth) {
    let (mut world, health) = off();
    world.boot();
    world.apply("pods", [pod(7, "web"), pod(8, "db")]);
    world.create(spec(7)).unwrap();
    world.advance(Duration::from_secs(5));
    (world, health)
}

/// The next life knows what this one kept.
fn restart(world: &mut World) {
    world.crash();
    boot(world);
}

fn boot(world: &mut World) {
    let stored = world.disk.with(|files| HealthRecord::SLOTS.load(files));
    if let Some(settings) = &mut world.settings.health_endpoint {
        settings.before = stored.value.map(|record| record.addresses).unwrap_or_default();
        settings.generation = stored.generation;
    }
    world.boot();
    world.advance(Duration::from_secs(30));
}

fn view(world: &World) -> HealthEndpointView {
    world.ask(world.node_supervisor().health_endpoint.as_ref().unwrap(), HealthEndpointMsg::Show)
}

/// The only health endpoint.
fn endpoint(world: &World) -> Arc<EndpointView> {
    let mut all: Vec<_> = world.list().into_iter().filter(|view| view.spec.is_health()).collect();
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

/// All is as it should be; the endpoint's number and address.
fn check(world: &World, health: &MemoryHealth) -> (EndpointId, IpAddr) {
    assert!(world.all_ready());
    let endpoint = endpoint(world);
    assert!(endpoint.spec.is_at_place(&health.place().unwrap()));
    assert_eq!((endpoint.identity, view(world).error), (IdentityId::HEALTH, None));
    assert_eq!(view(world).endpoint, Some(endpoint.id));
    let address = endpoint.spec.addresses.iter().next().unwrap();
    let leases = world.ask(&world.node_supervisor().ipam, IpamMsg::Dump);
    let own: Vec<_> = leases.iter().filter(|(_, lease)| lease.owner == "health").collect();
    assert_eq!(own.len(), 1, "{own:?}");
    assert_eq!(*own[0].0, address);
    world.audit();
    (endpoint.id, address)
}

#[test]
fn it_is_made_and_a_restart_changes_nothing_of_it() {
    let (mut world, health) = node();
    let before = check(&world, &health);
    let endpoint = endpoint(&world);
    assert_eq!(endpoint.spec.container_name, "cilium-health");
    assert_eq!(endpoint.identity_labels.as_ref(), &Labels::reserved("health"));
    for _ in 0..3 {
        world.kernel.forget_steps();
        restart(&mut world);
        assert_eq!(check(&world, &health), before);
        let writes = world.kernel.writes();
        let moves =
            |op: &KernelOp| matches!(op, KernelOp::Detach { .. } | KernelOp::DeleteLxc { .. });
        assert!(!writes.iter().any(moves), "{writes:?}");
        assert_eq!((health.made(), view(&world).made), (1, 0));
    }
}

#[test]
fn where_its_place_is_lost_it_is_made_anew_with_its_address() {
    let (mut world, health) = node();
    let (_, address) = check(&world, &health);
    // While the agent lives, and while none does.
    health.lose();
    world.advance(Duration::from_secs(150));
    assert_eq!((check(&world, &health).1, health.made()), (address, 2));
    world.crash();
    health.lose();
    boot(&mut world);
    assert_eq!((check(&world, &health).1, health.made()), (address, 3));
    assert_eq!(world.report().endpoints.len(), 1, "its loss is nobody's: {:?}", world.report());
    // The machine is booted: what the state directory and the kernel had is gone.
    world.cut_power(true, &mut |_| 0);
    boot(&mut world);
    assert_eq!((check(&world, &health).1, health.made()), (address, 4));
}

#[test]
fn one_without_a_record_is_not_taken_for_a_pods() {
    let (mut world, health) = node();
    let before = check(&world, &health);
    world.crash();
    world.disk.tamper(|files| files.destroy(Path::new(&before.0.to_string())));
    boot(&mut world);
    assert_eq!(check(&world, &health), before);
}

#[test]
fn it_goes_once_it_is_not_wanted_any_more() {
    let (mut world, health) = node();
    let (id, address) = check(&world, &health);
    world.crash();
    // The agent removes the place before it reads the kernel.
    health.lose();
    world.health = None;
    world.settings.health_endpoint = None;
    world.boot();
    world.advance(Duration::from_secs(30));
    assert_eq!(world.list().len(), 1);
    assert!(world.all_ready() && world.report().endpoints.len() == 1, "{:?}", world.report());
    world.audit();
    let leases = world.ask(&world.node_supervisor().ipam, IpamMsg::Dump);
    assert!(!leases.contains_key(&address), "{leases:?}");
    assert!(!world.kernel.state().rows.endpoints.contains_key(&id));
    assert!(!world.disk.with(|files| files.has(&id.to_string())));
}

#[test]
fn an_agent_that_dies_at_any_step_leaves_nothing_and_loses_nothing() {
    for nth in 0.. {
        let (mut world, health) = off();
        world.fate.at(nth, Turn::Die);
        world.boot();
        world.advance(Duration::from_secs(5));
        let died = world.fate.is_dead();
        restart(&mut world);
        let before = check(&world, &health);
        assert_eq!(world.list().len(), 1, "step {nth}");
        // The same where it is made anew.
        world.crash();
        health.lose();
        world.fate.at(nth, Turn::Die);
        boot(&mut world);
        let again = world.fate.is_dead();
        restart(&mut world);
        assert_eq!(check(&world, &health).1, before.1, "step {nth}");
        assert_eq!(world.list().len(), 1, "step {nth}");
        if !died && !again {
            assert!(nth > 10, "{nth}");
            return;
        }
    }
}

#[test]
fn whatever_is_refused_is_tried_again() {
    for step in ["look", "remove", "make a pair", "configure it"] {
        let (mut world, health) = off();
        let mut left = 3;
        world.fate.is(move |it| {
            let refused = it == step && left > 0;
            left -= usize::from(refused);
            if refused { Turn::Fail } else { Turn::Work }
        });
        world.boot();
        world.advance(Duration::from_secs(1));
        assert!(view(&world).error.is_some_and(|error| error.contains("no")), "{step}");
        world.advance(Duration::from_secs(60));
        check(&world, &health);
    }
}

#[test]
fn where_nobody_answers_for_five_minutes_it_is_made_anew() {
    let (world, health) = node();
    let (_, address) = check(&world, &health);
    health.silence(&[address]);
    world.advance(Duration::from_secs(240));
    assert_eq!(health.made(), 1);
    assert!(view(&world).error.unwrap().contains("connection refused"));
    world.advance(Duration::from_secs(240));
    assert_eq!(health.made(), 2);
    health.silence(&[]);
    world.advance(Duration::from_secs(120));
    assert_eq!(check(&world, &health).1, address);
}

#[test]
fn its_label_is_nobody_elses_and_one_that_is_deleted_comes_back() {
    let (world, health) = node();
    let (id, address) = check(&world, &health);
    let labels = Labels::reserved("health");
    let refused = world.create(EndpointSpec { labels, ..spec(8) }).unwrap_err();
    assert!(matches!(&refused, CreateError::Invalid(text) if text.contains("reserved:health")));
    world.delete(EndpointReference::Id(id)).unwrap();
    world.advance(Duration::from_secs(120));
    assert_eq!(check(&world, &health).1, address);
}
