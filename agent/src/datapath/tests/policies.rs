//! Tests: a policy map is built, put into its slot, read, changed and cleared, and a refusal costs
//! only the slot that it is about.

use std::sync::Arc;

use volvox_actors::{
    model::{EndpointId, PolicyRows},
    ports::Refusal,
};
use volvox_maps::{Dump, policies::rows, rows::config_to_raw, sys::Map};

use super::sandbox::{Sandbox, config_row, policy};
use crate::datapath::{Datapath, flipper::Flipper};

pub(super) fn flip(datapath: &Arc<Datapath>, slot: u32, rows: &PolicyRows) {
    datapath.policies().build(slot, rows).unwrap();
    assert_eq!(Flipper::start(datapath).unwrap().flip(&[slot]), [Ok(())]);
}

#[test]
fn a_policy_is_built_flipped_read_and_cleared() {
    Sandbox::run(|sandbox| {
        let datapath = sandbox.open();
        let policies = datapath.policies();
        let flipper = Flipper::start(&datapath).unwrap();
        let expected = policy(1..=30);
        assert_eq!(policies.read(5).unwrap(), None);
        policies.build(5, &expected).unwrap();
        assert_eq!(policies.read(5).unwrap(), None, "built is not in force");
        assert_eq!(flipper.flip(&[5]), [Ok(())]);
        assert_eq!(policies.read(5).unwrap(), Some(expected));
        assert_eq!(policies.clear(&[5]), Ok(()));
        assert_eq!(policies.read(5).unwrap(), None);
    });
}

#[test]
fn an_empty_policy_is_not_an_empty_slot() {
    Sandbox::run(|sandbox| {
        let datapath = sandbox.open();
        flip(&datapath, 3, &PolicyRows::new());
        assert_eq!(datapath.policies().read(3).unwrap(), Some(PolicyRows::new()));
    });
}

#[test]
fn a_refused_flip_costs_only_itself() {
    Sandbox::run(|sandbox| {
        let datapath = sandbox.open();
        let policies = datapath.policies();
        for slot in [2, 200_000, 4] {
            policies.build(slot, &policy([80])).unwrap();
        }
        let flipper = Flipper::start(&datapath).unwrap();
        let [first, unbuilt, outside, last] = flipper.flip(&[2, 3, 200_000, 4]).try_into().unwrap();
        assert_eq!((first, last), (Ok(()), Ok(())));
        assert_eq!(unbuilt.unwrap_err().refusal, Refusal::NotFound);
        assert_eq!(outside.unwrap_err().refusal, Refusal::MapFull);
        for slot in [2, 4] {
            assert_eq!(policies.read(slot).unwrap(), Some(policy([80])));
        }
    });
}

#[test]
fn rows_change_in_place() {
    Sandbox::run(|sandbox| {
        let datapath = sandbox.open();
        let policies = datapath.policies();
        flip(&datapath, 2, &policy([80, 81]));
        let (key, entry) = policy([82]).pop_first().unwrap();
        policies.put_row(2, &key, &entry).unwrap();
        let (gone, _) = policy([80]).pop_first().unwrap();
        policies.delete_row(2, &gone).unwrap();
        policies.delete_row(2, &gone).unwrap();
        assert_eq!(policies.read(2).unwrap(), Some(policy([81, 82])));
        let empty = policies.put_row(9, &key, &entry).unwrap_err();
        assert_eq!(empty.refusal, Refusal::NotFound);
    });
}

#[test]
fn the_pin_follows_the_slot() {
    Sandbox::run(|sandbox| {
        let datapath = sandbox.open();
        let policies = datapath.policies();
        let endpoint = EndpointId(7);
        let path = sandbox.root().join("tc/globals/cilium_policy_v2_00007");
        for (slot, ports) in [(endpoint.slot(0), [80]), (endpoint.slot(1), [443])] {
            flip(&datapath, slot, &policy(ports));
            policies.pin(endpoint, slot).unwrap();
            assert_eq!(rows(&Map::pinned(&path).unwrap()).unwrap(), policy(ports));
        }
        assert_eq!(datapath.snapshot().unwrap().policy_pins, [endpoint]);
        let before = datapath.writes().counts();
        policies.pin(endpoint, endpoint.slot(1)).unwrap();
        assert_eq!(datapath.writes().counts(), before, "pinning it again is no write");
        policies.unpin(endpoint).unwrap();
        assert!(!path.exists());
    });
}

#[test]
fn a_policy_that_does_not_fit_is_told() {
    Sandbox::run(|sandbox| {
        let datapath = sandbox.open();
        let error = datapath.policies().build(2, &policy(1..=100)).unwrap_err();
        assert_eq!(error.refusal, Refusal::MapFull);
        assert!(error.about.contains("cilium_policy_v2"), "{error}");
    });
}

#[test]
fn the_policy_in_force_is_shown_without_an_agent() {
    Sandbox::run(|sandbox| {
        let datapath = sandbox.open();
        let row = config_row(7, 4);
        flip(&datapath, row.policy_slot, &policy([80]));
        datapath.maps.config.put(&4, &config_to_raw(&row)).unwrap();
        drop(datapath);
        let dump = Dump::at(sandbox.root());
        assert_eq!(dump.policy(EndpointId(7)).unwrap(), Some(policy([80])));
        assert_eq!(dump.policy(EndpointId(8)).unwrap(), None);
        assert_eq!(dump.config().unwrap()[&4], row);
    });
}
