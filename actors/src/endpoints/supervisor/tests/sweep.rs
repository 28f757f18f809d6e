//! Tests: the regular sweep repairs drift in the kernel and removes endpoints without an interface.

use std::time::Duration;

use crate::{
    endpoints::{
        endpoint::{Level, Patch},
        supervisor::{EndpointReference, EndpointsMsg},
    },
    model::{EndpointId, IdentityId},
    ports::{Attachment, HookState, KernelOp},
    testing::{KernelState, Residue, World, pod, spec},
};

const ID: EndpointId = EndpointId(1);

/// A node with one endpoint, at rest.
fn node() -> World {
    let mut world = World::new();
    world.apply("pods", [pod(1, "web")]);
    world.create(spec(1)).unwrap();
    world.advance(Duration::from_secs(1));
    world
}

fn mends(what: &str, tamper: impl FnOnce(&mut KernelState)) {
    let world = node();
    let before = world.kernel.state();
    world.kernel.tamper(tamper);
    assert_ne!(world.kernel.state(), before, "{what}");
    world.advance(Duration::from_secs(31));
    let mut after = world.kernel.state();
    // A mended row counts as a new build, and may name the other slot.
    for (row, old) in after.rows.config.values_mut().zip(before.rows.config.values()) {
        let slot = std::mem::replace(&mut row.policy_slot, old.policy_slot);
        assert_eq!(after.slots.get(&slot), before.slots.get(&old.policy_slot), "{what}");
        row.generation = old.generation;
    }
    assert_eq!(after.rows, before.rows, "{what}");
    world.audit();
}

#[test]
fn what_somebody_else_changed_is_put_right() {
    let first = |state: &KernelState| *state.rows.lxc.keys().next().unwrap();
    mends("no configuration", |state| state.rows.config.clear());
    mends("another identity", |state| {
        state.rows.config.get_mut(&101).unwrap().identity = IdentityId(999);
    });
    mends("another endpoint's", |state| {
        state.rows.config.get_mut(&101).unwrap().endpoint = EndpointId(7);
    });
    mends("no local address", |state| state.rows.lxc.clear());
    mends("a wrong local address", |state| {
        let address = first(state);
        state.rows.lxc.get_mut(&address).unwrap().ifindex = 7;
    });
    mends("no route", |state| state.rows.routes.clear());
    mends("no programs", |state| state.rows.attachments.clear());
    mends("other programs", |state| {
        let both = Attachment { from_container: HookState::Stale, to_container: HookState::Link };
        state.rows.attachments.insert(ID, both);
    });
    mends("no record", |state| drop(state.rows.endpoints.remove(&ID)));
    mends("interface down", |state| state.rows.links.get_mut(&101).unwrap().up = false);
    let world = node();
    world.kernel.tamper(|state| state.pins.clear());
    world.advance(Duration::from_secs(31));
    assert_eq!(world.kernel.state().pins.len(), 1);
}

#[test]
fn a_look_that_is_older_than_the_last_build_changes_nothing() {
    let world = node();
    // The kernel is asked, and its answer comes behind a build that began later.
    world.kernel.stall(|op| matches!(op, KernelOp::ComparePolicies(_)));
    world.advance(Duration::from_secs(29));
    assert_eq!(world.kernel.jobs(), 1);
    let options = Some([("SourceIPVerification".to_owned(), 0)].into());
    let patch = Box::new(Patch { options, ..Patch::default() });
    let target = EndpointReference::Id(ID);
    let mut patched = world.pose(&world.node_supervisor().endpoints, |reply| EndpointsMsg::Patch {
        target,
        patch,
        reply,
    });
    world.settle();
    assert!(patched.now().unwrap().unwrap().is_ok());
    assert_eq!(world.kernel.jobs(), 1);
    world.kernel.stall(|_| false);
    let writes = world.kernel.writes().len();
    let builds = 2;
    world.settle();
    assert_eq!((world.get(ID).counts.builds, world.kernel.writes().len()), (builds, writes));
    world.audit();
}

#[test]
fn links_that_could_not_be_made_are_made_later() {
    let world = World::new();
    world.fate.refuses("Settle");
    world.create(spec(1)).unwrap();
    world.advance(Duration::from_secs(1));
    let at = |world: &World| world.kernel.state().rows.attachments[&ID].from_container;
    assert_eq!(at(&world), HookState::Filter);
    world.fate.is_kind();
    world.advance(Duration::from_secs(60));
    assert_eq!(at(&world), HookState::Link);
}

#[test]
fn an_endpoint_goes_when_its_interface_is_missed_twice() {
    let world = World::new();
    let before = Residue::of(&world);
    world.create(spec(1)).unwrap();
    world.advance(Duration::from_secs(301));
    let link = world.kernel.state().rows.links[&101].clone();
    world.kernel.tamper(|state| state.unplug(101));
    world.advance(Duration::from_secs(300));
    assert_eq!(world.list().len(), 1);
    // It comes back before the second look.
    world.kernel.tamper(|state| state.plug(link));
    world.advance(Duration::from_secs(600));
    assert!(world.all_ready() && world.list().len() == 1);
    world.audit();

    world.kernel.tamper(|state| state.unplug(101));
    world.advance(Duration::from_secs(900));
    Residue::assert_same(&world, &before, "a vanished interface");
}

#[test]
fn one_that_is_built_in_vain_whenever_it_is_looked_at_goes_all_the_same() {
    let world = World::new();
    let before = Residue::of(&world);
    world.create(spec(1)).unwrap();
    world.advance(Duration::from_secs(1));
    world.kernel.tamper(|state| state.unplug(101));
    // Every look finds it about to be built.
    for _ in 0..62 {
        let (target, level) = (EndpointReference::Id(ID), Level::Rebuild);
        let reason = std::sync::Arc::from("a test");
        let _built = world.pose(&world.node_supervisor().endpoints, |reply| {
            EndpointsMsg::Regenerate { target, level, reason, reply }
        });
        world.kernel.hold(true);
        world.advance(Duration::from_secs(10));
        world.kernel.hold(false);
        world.settle();
    }
    Residue::assert_same(&world, &before, "a vanished interface");
}
