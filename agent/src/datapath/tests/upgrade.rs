//! Tests: an upgrade, and the way back, switch every hook to the desired program generation, also
//! after a crash half-way.

use std::{fs, sync::Arc};

use volvox_actors::ports::{Attachment, HookState};
use volvox_bpf_progs::Features;
use volvox_maps::{
    DatapathError,
    pins::HOOKS,
    sys::{TCX_EGRESS, TCX_INGRESS},
};
use volvox_system::netlink::{Direction, Socket};

use super::{
    hooks::{endpoint, hooks, settle},
    sandbox::Sandbox,
};
use crate::datapath::{
    Datapath, DatapathConfig,
    generation::{Build, Generations},
    hooks::Place,
};

/// Another build of the programs: another feature set.
pub(super) fn other(config: &DatapathConfig) -> DatapathConfig {
    let features = Features { policy_stats: true, ..config.features };
    DatapathConfig { features, ..config.clone() }
}

pub(super) fn programs(datapath: &Datapath) -> [u32; 2] {
    let generation = datapath.generation();
    HOOKS.map(|hook| generation.id(hook).unwrap())
}

/// The programs that run at both hooks, by links.
pub(super) fn linked(place: Place) -> [Vec<u32>; 2] {
    [TCX_INGRESS, TCX_EGRESS].map(|hook| super::tcx_programs(place.ifindex, hook).unwrap())
}

/// The programs that run at both hooks, by filters.
pub(super) fn filtered(place: Place) -> [Vec<u32>; 2] {
    let mut netlink = Socket::open().unwrap();
    [Direction::Ingress, Direction::Egress].map(|direction| {
        let filters = netlink.filter_show(place.ifindex, direction).unwrap();
        filters.into_iter().map(|filter| filter.prog_id).collect()
    })
}

/// Pinned generations.
pub(super) fn generations(sandbox: &Sandbox) -> usize {
    fs::read_dir(sandbox.root().join("volvox/progs")).unwrap().count()
}

/// A datapath with one endpoint, whose programs run by links.
pub(super) fn settled(sandbox: &Sandbox) -> (Arc<Datapath>, Place) {
    let datapath = sandbox.open();
    let place = endpoint(sandbox, &datapath, 1);
    settle(&datapath, place).unwrap();
    (datapath, place)
}

#[test]
fn c_28088_an_upgrade_and_the_way_back_switch_every_hook() {
    Sandbox::run(|sandbox| {
        let old = sandbox.open();
        let (settled, attached) = (endpoint(sandbox, &old, 1), endpoint(sandbox, &old, 2));
        settle(&old, settled).unwrap();
        hooks(&old, |hooks| hooks.attach(attached)).unwrap();
        let new = Datapath::open(&other(&sandbox.config())).unwrap();
        assert_ne!(programs(&new), programs(&old));
        let running = programs(&new).map(|id| vec![id]);
        assert_eq!((linked(settled), filtered(attached)), (running.clone(), running));
        assert_eq!(generations(sandbox), 1);
        let back = sandbox.open();
        let running = programs(&back).map(|id| vec![id]);
        assert_eq!((linked(settled), filtered(attached)), (running.clone(), running));
        assert_eq!(generations(sandbox), 1);
    });
}

#[test]
fn an_upgrade_goes_on_where_a_crash_left_it() {
    Sandbox::run(|sandbox| {
        let (old, place) = settled(sandbox);
        // Killed after the new generation was pinned and before any link ran it.
        let config = other(&sandbox.config());
        let build = Build::of(config.features);
        let killed = Generations { pins: &old.pins, maps: &old.maps, build }
            .open(|_| Err(DatapathError::NoBpffs { path: "killed".into() }));
        assert!(killed.is_err());
        assert_eq!(linked(place), programs(&old).map(|id| vec![id]));
        assert_eq!(generations(sandbox), 2);
        let new = Datapath::open(&config).unwrap();
        assert_eq!(linked(place), programs(&new).map(|id| vec![id]));
        assert_eq!(generations(sandbox), 1);
    });
}

#[test]
fn a_crash_before_the_way_back_leaves_the_old_one_serving() {
    Sandbox::run(|sandbox| {
        let (old, place) = settled(sandbox);
        // Only one of the two programs was pinned.
        let half = sandbox.root().join("volvox/progs/0123456789abcdef_0001_new");
        fs::create_dir_all(&half).unwrap();
        volvox_maps::sys::pin(
            old.generation().program(HOOKS[0]).unwrap(),
            &half.join("cil_from_container"),
        )
        .unwrap();
        let again = sandbox.open();
        assert_eq!(programs(&again), programs(&old), "nothing was loaded");
        assert_eq!(linked(place), programs(&old).map(|id| vec![id]));
        assert!(!half.exists());
    });
}

#[test]
fn a_rebuild_loads_a_fresh_generation_and_switches_to_it() {
    Sandbox::run(|sandbox| {
        let (datapath, place) = settled(sandbox);
        let before = programs(&datapath);
        datapath.load().unwrap();
        assert_ne!(programs(&datapath), before);
        assert_eq!(linked(place), programs(&datapath).map(|id| vec![id]));
        assert_eq!(generations(sandbox), 1);
        assert_eq!(programs(&sandbox.open()), programs(&datapath));
    });
}

#[test]
fn a_stale_program_is_told_and_replaced() {
    Sandbox::run(|sandbox| {
        let (old, place) = settled(sandbox);
        let config = other(&sandbox.config());
        let build = Build::of(config.features);
        // Its links were not reached when the generation became current.
        Generations { pins: &old.pins, maps: &old.maps, build }.open(|_| Ok(())).unwrap();
        let new = Datapath::open(&config).unwrap();
        let stale = Attachment { from_container: HookState::Stale, to_container: HookState::Stale };
        assert_eq!(new.snapshot().unwrap().attachments[&place.endpoint], stale);
        hooks(&new, |hooks| hooks.attach(place)).unwrap();
        assert_eq!(linked(place), programs(&new).map(|id| vec![id]));
    });
}
