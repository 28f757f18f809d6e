//! Connection tracking that changes its size while programs of two generations run.

use std::{collections::BTreeMap, fs, os::fd::AsFd};

use volvox_actors::{model::Families, ports::Hook};
use volvox_bpf_progs::{
    layouts::{Ct4Key, CtRow},
    maps::CONNECTIONS,
};
use volvox_maps::{
    Dump,
    crash::killed_before,
    pins::{names, program_name},
    sys::{Map, load_pass},
};
use volvox_system::netlink::{Direction, Socket};

use super::{
    connections::collect_connections,
    crashes::MANY,
    hooks::{endpoint, hooks},
    sandbox::Sandbox,
    upgrade::{linked, programs, settled},
};
use crate::datapath::{Datapath, DatapathConfig, Writes, maps::Maps};

const TCP: &str = "cilium_ct4_global";

/// A connection that is never too old.
pub(super) fn connection(number: u8, src_sec_id: u32) -> (Ct4Key, CtRow) {
    let key = Ct4Key { daddr: [10, 9, 0, number], ..Ct4Key::default() };
    (key, CtRow { lifetime: u32::MAX, src_sec_id, ..CtRow::default() })
}

/// As configured for the sandbox, with room for this many connections of TCP.
pub(super) fn sized(sandbox: &Sandbox, ct_tcp: u32) -> DatapathConfig {
    let mut config = sandbox.config();
    config.sizes.ct_tcp = ct_tcp;
    config
}

/// The number of the map that programs of this datapath track TCP in.
fn current(maps: &Maps) -> u32 {
    maps.ids.iter().find(|(name, _)| *name == TCP).unwrap().1
}

/// The numbers of the maps in the slots.
pub(super) fn replaced(maps: &Maps) -> BTreeMap<&'static str, u32> {
    let names = CONNECTIONS.iter().map(|(name, ..)| *name);
    let map = |name| maps.resizing.slot(name).unwrap().map().unwrap();
    names.filter_map(|name| Some((name, map(name)?.info().id))).collect()
}

#[test]
fn the_map_before_stands_in_its_slot_until_all_is_taken_over() {
    Sandbox::run(|sandbox| {
        let (old, place) = settled(sandbox);
        let (key, row) = connection(1, 1);
        old.maps.ct4[0].put(&key, &row).unwrap();
        let config = sized(sandbox, 8192);
        let between =
            Maps::open(&old.pins, (config.sizes, config.features), &Writes::default(), Vec::new)
                .unwrap();
        assert_eq!(replaced(&between)[TCP], current(&old.maps));
        assert_ne!(current(&between), current(&old.maps));
        // Both generations go on: one row is tracked by the older, of another the newer's stays.
        let (late, tracked) = connection(2, 2);
        old.maps.ct4[0].put(&late, &tracked).unwrap();
        between.ct4[0].put(&key, &connection(1, 3).1).unwrap();
        drop(between);
        assert_eq!(linked(place), programs(&old).map(|id| vec![id]), "as after a crash");
        let shown = Dump::at(sandbox.root()).connections().unwrap();
        let identities: Vec<_> = shown.iter().map(|shown| shown.identity.0).collect();
        assert_eq!(identities, [3, 2], "of both maps, each connection once");
        let new = Datapath::open(&config).unwrap();
        assert_eq!(linked(place), programs(&new).map(|id| vec![id]));
        assert_eq!(replaced(&new.maps), BTreeMap::new());
        assert_eq!(new.maps.ct4[0].get(&late).unwrap(), Some(tracked));
        assert_eq!(new.maps.ct4[0].get(&key).unwrap(), Some(connection(1, 3).1));
    });
}

/// Changes the size, killed at every step, then opens with `next`.
fn resized_and_killed_everywhere(next: u32) {
    for number in 0..MANY {
        let mut killed = true;
        Sandbox::run(|sandbox| {
            let (small, place) = settled(sandbox);
            let (key, row) = connection(1, 1);
            small.maps.ct4[0].put(&key, &row).unwrap();
            let (older, old) = (programs(&small).map(|id| vec![id]), current(&small.maps));
            killed = killed_before(number, || {
                drop(Datapath::open(&sized(sandbox, 8192)).unwrap());
            });
            // As long as a hook runs the older program, that tracks what it sees.
            let late = connection(2, 2);
            let is_late = killed && linked(place).iter().zip(&older).any(|(now, old)| now == old);
            if is_late {
                small.maps.ct4[0].put(&late.0, &late.1).unwrap();
                let path = sandbox.root().join("tc/globals").join(TCP);
                let pinned = Map::pinned(&path).unwrap().info().id;
                let held = replaced(&small.maps).get(TCP).copied();
                assert!(pinned == old || held == Some(old), "before step {number}");
            }
            drop(small);
            let now = Datapath::open(&sized(sandbox, next)).unwrap();
            let rows = [&key, &late.0].map(|key| now.maps.ct4[0].get(key).unwrap());
            assert_eq!(rows, [Some(row), is_late.then_some(late.1)], "before step {number}");
            assert_eq!(replaced(&now.maps), BTreeMap::new(), "before step {number}");
            assert_eq!(linked(place), programs(&now).map(|id| vec![id]), "before step {number}");
            let used = now.generation().maps();
            let used = used.iter().find(|map| map.info().id == current(&now.maps));
            assert_eq!(used.unwrap().info().max_entries, next, "before step {number}");
            let names = names(&sandbox.root().join("tc/globals")).unwrap();
            assert!(names.iter().all(|name| !name.starts_with("volvox_new")));
        });
        if !killed {
            return assert!(number > 10, "resizing takes more than {number} steps");
        }
    }
    panic!("resizing takes fewer than {MANY} steps");
}

#[test]
fn a_change_killed_anywhere_is_finished() {
    resized_and_killed_everywhere(8192);
}

#[test]
fn a_change_killed_anywhere_is_taken_back() {
    resized_and_killed_everywhere(4096);
}

#[test]
fn where_a_hook_cannot_be_switched_both_maps_stay_until_connections_are_swept() {
    Sandbox::run(|sandbox| {
        let old = sandbox.open();
        let place = endpoint(sandbox, &old, 1);
        hooks(&old, |hooks| hooks.attach(place)).unwrap();
        let foreign = load_pass().unwrap();
        let name = program_name(Hook::FromContainer);
        let mut netlink = Socket::open().unwrap();
        netlink.filter_replace(place.ifindex, Direction::Ingress, foreign.as_fd(), name).unwrap();
        let (key, row) = connection(1, 1);
        old.maps.ct4[0].put(&key, &row).unwrap();
        let new = Datapath::open(&sized(sandbox, 8192)).unwrap();
        assert_eq!(replaced(&new.maps)[TCP], current(&old.maps));
        collect_connections(&new, Families::DUAL);
        assert_eq!(replaced(&new.maps), BTreeMap::new());
        assert_eq!(new.maps.ct4[0].get(&key).unwrap(), Some(row));
    });
}

#[test]
fn a_map_that_lost_its_pin_is_resized_as_well() {
    Sandbox::run(|sandbox| {
        let (old, _) = settled(sandbox);
        let (key, row) = connection(1, 1);
        old.maps.ct4[0].put(&key, &row).unwrap();
        fs::remove_file(sandbox.root().join("tc/globals").join(TCP)).unwrap();
        let new = Datapath::open(&sized(sandbox, 8192)).unwrap();
        assert_ne!(current(&new.maps), current(&old.maps));
        assert_eq!(new.maps.ct4[0].get(&key).unwrap(), Some(row));
        assert_eq!(replaced(&new.maps), BTreeMap::new());
    });
}
