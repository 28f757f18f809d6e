//! Tests: many prefixes and many pods neither slow a restart down nor hold a new pod back.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use serde_json::json;

use crate::{
    endpoints::supervisor::EndpointReference,
    model::{EndpointId, IdentityId},
    ports::KernelOp,
    testing::{Residue, World, allow_from, link, pod, spec},
};

/// A node with that many endpoints of `web`, and interfaces for all that may come.
fn node(count: u8) -> World {
    let mut world = World::new();
    world.kernel.tamper(|state| (1..=250).for_each(|number| state.plug(link(number))));
    world.apply("pods", (1..=250).map(|number| pod(number, "web")));
    for number in 1..=count {
        world.create(spec(number)).unwrap();
    }
    world.advance(Duration::from_secs(1));
    world
}

/// c 30651: identities of prefixes were gone from policies until these were touched.
#[test]
fn c_30651_ten_thousand_prefixes_keep_their_numbers() {
    let mut world = node(2);
    let prefix = |number: u16| format!("10.{}.{}.0/24", 1 + number / 256, number % 256);
    let prefixes: Vec<String> = (0..10_000).map(prefix).collect();
    world.apply("policy", [allow_from("web", json!({ "fromCIDR": prefixes }))]);
    world.advance(Duration::from_secs(1));
    let before = world.kernel.state();
    let rows = before.policy_of(101).unwrap();
    let allowed: BTreeSet<IdentityId> = rows.keys().map(|key| key.identity).collect();
    let identity = |prefix: &String| before.rows.ipcache[&prefix.parse().unwrap()].identity;
    let named: BTreeSet<IdentityId> = prefixes.iter().map(identity).collect();
    assert!(named.len() == prefixes.len() && named.is_subset(&allowed));
    let writes = world.kernel.writes().len();
    world.restart();
    world.advance(Duration::from_secs(60));
    assert!(world.all_ready() && world.report().finished);
    assert_eq!(world.kernel.writes().len(), writes);
    assert_eq!(world.kernel.state(), before);
}

/// c 31497: behind a mass of regenerations new pods did not start for minutes.
#[test]
fn c_31497_a_new_pod_overtakes_mass_regeneration() {
    let mut world = node(200);
    let old = world.kernel.state().policy_of(101).unwrap().clone();
    world.kernel.hold(true);
    world.apply("policy", [allow_from("web", json!({ "fromEntities": ["world"] }))]);
    let mut made = world.begin_create(spec(201));
    world.settle();
    world.kernel.hold(false);
    while made.now().is_none() {
        let universe = &world.life().universe;
        assert!(universe.step(0) || world.disk.step() || world.kernel.step(0));
    }
    let state = world.kernel.state();
    let changed = (101..=300).filter(|ifindex| state.policy_of(*ifindex) != Some(&old)).count();
    // Two builds ran when it came, and two permits there are.
    assert!(changed <= 6, "{changed} were built before it");
    world.settle();
    world.advance(Duration::from_secs(60));
    assert!(world.all_ready());
    world.audit();
}

/// The same over time: five hundred pods come and go while policy changes.
#[test]
fn c_31497_a_churn_of_pods_leaves_nothing_and_is_bounded() {
    let mut world = node(20);
    let before = Residue::of(&world);
    let policies = [json!({ "fromEntities": ["world"] }), json!({ "fromEntities": ["cluster"] })];
    let mut slowest = 0;
    for round in 0..10 {
        world.kernel.hold(true);
        world.apply("policy", [allow_from("web", policies[round % 2].clone())]);
        let made: Vec<_> = (21..=70).map(|number| world.begin_create(spec(number))).collect();
        world.kernel.hold(false);
        let writes = world.kernel.writes().len();
        world.settle();
        for mut made in made {
            assert!(made.now().unwrap().unwrap().is_ok(), "round {round}");
        }
        slowest = slowest.max(world.kernel.writes().len() - writes);
        for number in 21..=70 {
            assert_eq!(world.delete(EndpointReference::Pod(format!("ns/pod-{number}"))), Some(0));
        }
        world.advance(Duration::from_secs(1));
    }
    world.apply("policy", []);
    world.advance(Duration::from_secs(60));
    Residue::assert_alike(&world, &before, "a churn");
    // What a round costs does not grow with those before it: a bounded number of writes a pod.
    assert!(slowest < 70 * 40, "{slowest} writes in a round");
    world.audit();
}

/// c 29795: a start wrote everything anew, and took minutes.
#[test]
fn c_29795_a_restart_writes_as_much_as_there_is_to_mend() {
    let writes = |damaged: u16| {
        let mut world = node(60);
        world.crash();
        world.kernel.tamper(|state| {
            let of_damaged = |id: u16| id <= damaged;
            state.rows.config.retain(|_, row| !of_damaged(row.endpoint.0));
            state.rows.lxc.retain(|_, row| !of_damaged(row.endpoint));
        });
        let before = world.kernel.writes().len();
        world.boot();
        world.advance(Duration::from_secs(60));
        assert!(world.all_ready());
        world.audit();
        let mut written: BTreeMap<&str, usize> = BTreeMap::new();
        for op in &world.kernel.writes()[before..] {
            *written.entry(op.name()).or_default() += 1;
            if let KernelOp::PutConfig(row) = op {
                assert!(row.endpoint <= EndpointId(damaged));
            }
        }
        written
    };
    assert_eq!(writes(0), BTreeMap::new());
    let one = writes(1);
    let ten: BTreeMap<&str, usize> = one.iter().map(|(&op, count)| (op, 10 * count)).collect();
    assert_eq!(writes(10), ten);
}
