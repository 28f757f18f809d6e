//! Tests: an endpoint that never finishes a build holds up no other, and what it must deny waits
//! for it.

use std::time::Duration;

use serde_json::json;

use crate::{
    endpoints::{
        endpoint::EndpointState,
        endpoint_called,
        supervisor::{EndpointReference, EndpointsMsg},
    },
    host::Whom,
    model::EndpointId,
    ports::KernelOp,
    testing::{Residue, World, allow_from, pod, spec},
};

/// The endpoint that never answers.
const STUCK: EndpointId = EndpointId(1);

/// deckhouse 21647: one endpoint that never took up a policy held every other one for hours, and
/// the agent called itself alive.
#[test]
fn deckhouse_21647_one_that_never_answers_holds_nobody_else_up() {
    let mut world = World::new();
    world.apply("pods", [pod(1, "web"), pod(2, "web"), pod(3, "db"), pod(4, "web")]);
    for number in [1, 2, 3] {
        world.create(spec(number)).unwrap();
    }
    world.advance(Duration::from_secs(1));
    let old = world.kernel.state().policy_of(101).unwrap().clone();
    let slots = [0, 1].map(|parity| STUCK.slot(parity));
    world.kernel.stall(move |op| match op {
        KernelOp::BuildPolicy { slot, .. }
        | KernelOp::FlipPolicy { slot }
        | KernelOp::PutPolicyRow { slot, .. }
        | KernelOp::DeletePolicyRow { slot, .. } => slots.contains(slot),
        _ => false,
    });
    let prefix = "192.0.2.0/24";
    world.apply("policy", [allow_from("web", json!({ "fromCIDR": [prefix] }))]);

    // The other one of that policy enforces it at once; a new one comes to be.
    let state = world.kernel.state();
    assert_eq!(state.policy_of(101), Some(&old));
    assert_ne!(state.policy_of(102), Some(&old));
    let states = |world: &World| {
        let views = world.list();
        views.into_iter().map(|view| (view.id.0, view.state)).collect::<Vec<_>>()
    };
    let ready = EndpointState::Ready;
    assert_eq!(states(&world), [(1, EndpointState::Regenerating), (2, ready), (3, ready)]);
    assert!(world.create(spec(4)).is_ok());

    // Who waits, for whom and until when can be seen.
    let host = &world.node_supervisor().host;
    let cells = host.cells();
    let stuck = cells.iter().find(|cell| endpoint_called(&cell.name) == Some(1)).unwrap();
    let waits = host.with_waits(|waits| waits.of(stuck.id).cloned().collect::<Vec<_>>());
    assert!(waits.iter().any(|wait| wait.whom == Whom::Port("kernel")), "{waits:?}");
    assert!(waits.iter().all(|wait| wait.until.since(host.now()) <= Duration::from_secs(30)));

    // The prefix was mapped before the rules were in force; the change goes on without the one
    // that is stuck, and the next change is taken up.
    let prefix = prefix.parse().unwrap();
    assert!(world.kernel.state().rows.ipcache.contains_key(&prefix));
    world.advance(Duration::from_secs(31));
    assert!(world.kernel.state().rows.ipcache.contains_key(&prefix));
    world.apply("policy", [allow_from("web", json!({ "fromEntities": ["world"] }))]);
    world.advance(Duration::from_secs(60));
    // Rules of before may name the prefix still where nothing is taken up.
    assert!(world.kernel.state().rows.ipcache.contains_key(&prefix));
    let others: Vec<_> = states(&world).into_iter().filter(|(id, _)| *id != STUCK.0).collect();
    assert_eq!(others, [(2, ready), (3, ready), (4, ready)]);
    assert!(!world.all_ready());

    world.kernel.stall(|_| false);
    world.advance(Duration::from_secs(120));
    assert!(world.all_ready(), "{:?}", states(&world));
    assert!(!world.kernel.state().rows.ipcache.contains_key(&prefix));
    world.audit();
}

/// What one that hangs denies by a wider prefix does not pass because others allow a part of it.
#[test]
fn a_new_prefix_waits_for_one_that_hangs_and_denies_what_is_around_it() {
    let mut world = World::new();
    world.apply("pods", [pod(1, "web")]);
    let mut policy = allow_from("web", json!({ "fromEntities": ["all"] }));
    policy["spec"]["ingressDeny"] = json!([{ "fromEntities": ["world"] }]);
    world.apply("policy", [policy]);
    world.create(spec(1)).unwrap();
    world.advance(Duration::from_secs(1));
    let slots = [0, 1].map(|parity| STUCK.slot(parity));
    world.kernel.stall(move |op| match op {
        KernelOp::BuildPolicy { slot, .. } | KernelOp::PutPolicyRow { slot, .. } => {
            slots.contains(slot)
        }
        _ => false,
    });
    let prefix = "192.0.2.0/24";
    world.apply("policy", [allow_from("web", json!({ "fromCIDR": [prefix] }))]);
    let is_mapped =
        |world: &World| world.kernel.state().rows.ipcache.contains_key(&prefix.parse().unwrap());
    // Longer than a few rounds of asking take.
    world.advance(Duration::from_secs(100));
    assert!(!is_mapped(&world));
    world.kernel.stall(|_| false);
    world.advance(Duration::from_secs(60));
    assert!(is_mapped(&world) && world.all_ready());
}

/// A step that the kernel does long after its endpoint lost patience is over before that one is
/// gone: nothing is written for who has its number or its interface next.
#[test]
fn what_the_kernel_does_late_is_done_before_its_endpoint_is_gone() {
    let mut world = World::new();
    world.apply("pods", [pod(1, "web")]);
    let before = Residue::of(&world);
    world.create(spec(1)).unwrap();
    world.advance(Duration::from_secs(1));
    world.kernel.stall(|op| matches!(op, KernelOp::PutConfig(row) if row.ifindex == 101));
    world.apply("policy", [allow_from("web", json!({ "fromCIDR": ["192.0.2.0/24"] }))]);
    world.advance(Duration::from_secs(31));
    assert!(world.get(STUCK).failing);
    let target = EndpointReference::Id(STUCK);
    let mut deleted = world
        .pose(&world.node_supervisor().endpoints, |reply| EndpointsMsg::Delete { target, reply });
    world.advance(Duration::from_secs(120));
    assert!(!matches!(deleted.now(), Some(Ok(Ok(0)))));
    assert_eq!(world.list().len(), 1);
    world.kernel.stall(|_| false);
    world.advance(Duration::from_secs(120));
    assert!(world.list().is_empty());
    world.apply("policy", []);
    world.advance(Duration::from_secs(1));
    Residue::assert_same(&world, &before, "after the deletion");
}

/// A node whose web pod lets db in, of which nothing is written any more.
fn stuck_web(world: &mut World, policy: serde_json::Value) {
    world.apply("pods", [pod(1, "web"), pod(2, "db"), pod(3, "db"), pod(4, "mail")]);
    world.apply("policy", [policy]);
    world.create(spec(1)).unwrap();
    world.advance(Duration::from_secs(1));
    let slots = [0, 1].map(|parity| STUCK.slot(parity));
    world.kernel.stall(move |op| match op {
        KernelOp::BuildPolicy { slot, .. } | KernelOp::PutPolicyRow { slot, .. } => {
            slots.contains(slot)
        }
        _ => false,
    });
}

/// New pods that are to be let in by one that does not answer start all the same, and others' rules
/// are in force: the first of them after a second, then at once.
#[test]
fn new_pods_and_new_rules_wait_for_no_one_that_never_answers() {
    let mut world = World::new();
    let db = json!({ "fromEndpoints": [{ "matchLabels": { "app": "db" } }] });
    stuck_web(&mut world, allow_from("web", db.clone()));
    let mut first = world.begin_create(spec(2));
    world.advance(Duration::from_millis(2500));
    assert!(first.now().unwrap().unwrap().is_ok());
    assert!(world.create(spec(3)).is_ok() && world.create(spec(4)).is_ok(), "at once");
    // A prefix that is new, and another one for the pod that is stuck itself.
    for prefix in ["192.0.2.0/24", "198.51.100.0/24"] {
        let rules = ["mail", "web"].map(|app| allow_from(app, json!({ "fromCIDR": [prefix] })));
        world.apply("more", rules);
        let mapped = world.kernel.state().rows.ipcache.contains_key(&prefix.parse().unwrap());
        assert!(mapped, "{prefix}");
        assert!(world.get(EndpointId(4)).realised.ingress_enforced);
    }
    assert!(!world.all_ready());
    world.kernel.stall(|_| false);
    world.advance(Duration::from_secs(120));
    assert!(world.all_ready());
    world.audit();
}

/// Whom one that hangs is to deny does not come to be before it does.
#[test]
fn whom_one_that_hangs_denies_waits_until_it_does() {
    let mut world = World::new();
    let mut policy = allow_from("web", json!({ "fromEntities": ["all"] }));
    policy["spec"]["ingressDeny"] =
        json!([{ "fromEndpoints": [{ "matchLabels": { "app": "db" } }] }]);
    stuck_web(&mut world, policy);
    let mut denied = world.begin_create(spec(2));
    world.advance(Duration::from_secs(20));
    assert!(denied.now().is_none());
    assert!(world.create(spec(4)).is_ok(), "nobody else waits");
    world.kernel.stall(|_| false);
    world.advance(Duration::from_secs(10));
    assert!(denied.now().unwrap().unwrap().is_ok());
    world.audit();
}
