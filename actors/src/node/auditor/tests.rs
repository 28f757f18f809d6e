//! Tests: a sound node has no findings; what is broken is found, counted and shown until it is
//! put right.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use super::{AuditView, AuditorMsg};
use crate::{
    endpoints::supervisor::EndpointReference,
    model::EndpointId,
    ports::{KernelOp, LxcRow},
    testing::{KernelState, World, pod, spec},
};

const ID: EndpointId = EndpointId(1);
const LOOK: Duration = Duration::from_secs(30);
/// Where owners compare nothing, the node is looked at as often as vanished interfaces are looked for.
const SLOW_LOOK: Duration = Duration::from_secs(300);

/// A node with two endpoints that was restarted, and was looked at more than once since.
fn node() -> World {
    let mut world = World::new();
    world.apply("pods", [pod(1, "web"), pod(2, "db")]);
    world.create(spec(1)).unwrap();
    world.create(spec(2)).unwrap();
    world.restart();
    world.advance(3 * LOOK);
    world
}

/// The same, where owners do not compare their rows: what somebody else changes stays.
fn unwatched() -> World {
    let mut world = World::off();
    world.settings.schedule.sweep = Duration::ZERO;
    world.boot();
    world.apply("pods", [pod(1, "web"), pod(2, "db")]);
    world.create(spec(1)).unwrap();
    world.create(spec(2)).unwrap();
    world.restart();
    world.advance(3 * SLOW_LOOK);
    world
}

fn view(world: &World) -> Arc<AuditView> {
    world.ask(&world.node_supervisor().auditor, AuditorMsg::Show)
}

fn broken(world: &World) -> Vec<String> {
    view(world).broken.keys().cloned().collect()
}

#[test]
fn a_sound_node_is_looked_at_and_nothing_is_found() {
    let mut world = node();
    let first = view(&world);
    assert!(first.looks >= 3, "{first:?}");
    assert_eq!((&first.broken, &first.found), (&BTreeMap::new(), &BTreeMap::new()));
    // Also while endpoints come, change and go.
    for round in 0..10 {
        world.advance(LOOK - Duration::from_millis(1));
        let mut created = world.begin_create(spec(3));
        world.apply("pods", [pod(1, &format!("web-{round}")), pod(2, "db")]);
        world.advance(Duration::from_millis(2));
        assert!(created.now().unwrap().unwrap().is_ok());
        assert_eq!(world.delete(EndpointReference::ContainerId(spec(3).container_id)), Some(0));
    }
    let last = view(&world);
    assert!(last.looks >= first.looks + 10 && last.found.is_empty(), "{last:?}");
    // A node without endpoints is looked at as well.
    for number in [1, 2] {
        world.delete(EndpointReference::ContainerId(spec(number).container_id));
    }
    world.advance(2 * LOOK);
    let empty = view(&world);
    assert!(empty.looks > last.looks && empty.found.is_empty(), "{empty:?}");
}

/// What is found when the kernel is spoilt so, at the look after it and at the third one.
fn finds(spoil: impl FnOnce(&mut KernelState)) -> [Vec<String>; 2] {
    let world = node();
    world.kernel.tamper(spoil);
    world.advance(LOOK);
    let first = broken(&world);
    world.advance(2 * LOOK);
    [first, broken(&world)]
}

#[test]
fn what_nobody_puts_right_is_found_counted_and_shown_until_it_is_gone() {
    let world = unwatched();
    let slot = world.kernel.state().rows.config[&101].policy_slot;
    let before = world.kernel.state();
    world.kernel.tamper(|state| {
        state.slots.remove(&slot);
        state.rows.ipcache.clear();
    });
    world.advance(SLOW_LOOK);
    let found = view(&world);
    assert_eq!(found.broken.len(), 2, "{found:?}");
    assert_eq!(found.broken["ready-means-enforced"], ["endpoint 1 has no policy in slot 2"]);
    assert_eq!(found.found["ready-means-known-to-others"], 4);
    world.advance(3 * SLOW_LOOK);
    assert_eq!(view(&world).found, found.found, "what stays is counted once");
    world.kernel.tamper(|state| *state = before);
    world.advance(SLOW_LOOK);
    let mended = view(&world);
    assert_eq!((&mended.broken, &mended.found), (&BTreeMap::new(), &found.found));
}

#[test]
fn what_endpoints_put_right_is_gone_at_the_next_look() {
    let [_, later] = finds(|state| state.rows.attachments.retain(|id, _| *id != ID));
    assert_eq!(later, Vec::<String>::new());
    let [_, later] = finds(|state| state.rows.config.clear());
    assert_eq!(later, Vec::<String>::new());
    let [_, later] = finds(|state| {
        state.slots.clear();
        state.rows.ipcache.clear();
    });
    assert_eq!(later, Vec::<String>::new());
}

#[test]
fn what_seems_left_behind_must_be_there_twice() {
    let row = LxcRow { endpoint: 77, ifindex: 77, ..LxcRow::default() };
    let world = unwatched();
    let orphan = |state: &mut KernelState| {
        state.rows.lxc.insert("10.0.0.77".parse().unwrap(), row);
    };
    world.kernel.tamper(orphan);
    world.advance(SLOW_LOOK);
    assert_eq!(broken(&world), Vec::<String>::new());
    world.advance(SLOW_LOOK);
    assert_eq!(broken(&world), ["nothing-is-left-behind"]);
    // Where it is swept it is gone before that.
    assert_eq!(finds(orphan), [const { Vec::<String>::new() }; 2]);
    // Before restoring is over, the run before may have left it.
    let mut world = World::new();
    world.create(spec(1)).unwrap();
    world.crash();
    world.kernel.tamper(orphan);
    world.restores = false;
    world.boot();
    world.advance(4 * LOOK);
    assert_eq!(broken(&world), Vec::<String>::new());
}

#[test]
fn an_endpoint_whose_interface_went_first_is_no_fault() {
    let world = node();
    world.kernel.tamper(|state| state.unplug(101));
    world.advance(3 * LOOK);
    assert!(view(&world).found.is_empty(), "{:?}", view(&world));
}

#[test]
fn a_look_that_cannot_be_finished_is_given_up_and_the_next_one_is() {
    let world = node();
    let before = view(&world).looks;
    world.fate.refuses("ReadPolicy");
    world.advance(2 * LOOK);
    let without = view(&world);
    assert!(without.found.is_empty(), "what could not be read says nothing: {without:?}");
    world.fate.is_kind();
    world.kernel.watch(|_, op| assert!(!matches!(op, KernelOp::PutConfig(_))));
    world.advance(2 * LOOK);
    assert!(view(&world).looks >= before + 2);
}
