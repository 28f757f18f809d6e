//! Every way to be killed on the way from one state to the next: after each step that leaves a
//! trace, the node is looked at, and the next run has to bring it where it was to be.

use std::{collections::BTreeSet, sync::Arc};

use volvox_actors::{
    model::EndpointId,
    ports::{Attachment, DeviceKind, HookState},
};
use volvox_maps::{crash::killed_before, policies::rows, sys::Map};

use super::{
    hooks::{endpoint, hooks, settle},
    policies::flip,
    sandbox::{Sandbox, policy},
    upgrade::{filtered, generations, linked, other, programs},
};
use crate::datapath::{Datapath, DatapathConfig, devices::Devices, hooks::Place, uninstall};

/// More steps than anything here takes.
pub(super) const MANY: usize = 200;

/// Which programs run, in turn: what runs by a link keeps the filter from running.
fn running(place: Place) -> BTreeSet<u32> {
    linked(place)
        .into_iter()
        .zip(filtered(place))
        .map(|(links, filters)| {
            assert!(links.len() <= 1 && filters.len() <= 1, "{links:?} {filters:?}");
            *links.first().or(filters.first()).expect("a program runs at every moment")
        })
        .collect()
}

fn set(programs: [u32; 2]) -> BTreeSet<u32> {
    programs.into_iter().collect()
}

/// Upgrades one settled and one attached endpoint, killed at every step; then `next` is opened.
fn upgrade_killed_everywhere(next: fn(&DatapathConfig) -> DatapathConfig) {
    Sandbox::run(|sandbox| {
        let config = sandbox.config();
        let first = sandbox.open();
        let (settled, attached) = (endpoint(sandbox, &first, 1), endpoint(sandbox, &first, 2));
        settle(&first, settled).unwrap();
        hooks(&first, |hooks| hooks.attach(attached)).unwrap();
        for number in 0..MANY {
            let old = sandbox.open();
            let killed = killed_before(number, || {
                Datapath::open(&other(&config)).unwrap();
            });
            if !killed {
                return assert!(number > 10, "an upgrade takes more than {number} steps");
            }
            for place in [settled, attached] {
                assert_eq!(running(place).len(), 2, "before step {number}");
            }
            let now = Datapath::open(&next(&config)).unwrap();
            for place in [settled, attached] {
                assert_eq!(running(place), set(programs(&now)), "before step {number}");
            }
            assert_eq!(generations(sandbox), 1, "before step {number}");
            drop((old, now));
        }
        panic!("an upgrade takes fewer than {MANY} steps");
    });
}

#[test]
fn an_upgrade_killed_anywhere_is_finished() {
    upgrade_killed_everywhere(other);
}

#[test]
fn an_upgrade_killed_anywhere_is_taken_back() {
    upgrade_killed_everywhere(Clone::clone);
}

#[test]
fn the_first_start_killed_anywhere_is_finished() {
    for number in 0..MANY {
        let mut killed = true;
        Sandbox::run(|sandbox| {
            killed = killed_before(number, || drop(sandbox.open()));
            let (first, second) = (sandbox.open(), sandbox.open());
            assert_eq!(first.maps.ids, second.maps.ids);
            assert_eq!(programs(&first), programs(&second));
            assert_eq!(generations(sandbox), 1);
        });
        if !killed {
            return assert!(number > 10, "a first start takes more than {number} steps");
        }
    }
    panic!("a first start takes fewer than {MANY} steps");
}

#[test]
fn settling_killed_anywhere_never_leaves_a_hook_without_a_program() {
    Sandbox::run(|sandbox| {
        let datapath = sandbox.open();
        for number in 0..MANY {
            let place = endpoint(sandbox, &datapath, u8::try_from(number).unwrap() + 1);
            hooks(&datapath, |hooks| hooks.attach(place)).unwrap();
            let killed = killed_before(number, || settle(&datapath, place).unwrap());
            assert_eq!(running(place), set(programs(&datapath)), "before step {number}");
            settle(&datapath, place).unwrap();
            let links =
                Attachment { from_container: HookState::Link, to_container: HookState::Link };
            let read = hooks(&datapath, |hooks| hooks.read(place)).unwrap();
            assert_eq!(read, links, "before step {number}");
            assert_eq!(filtered(place).concat(), Vec::<u32>::new(), "before step {number}");
            if !killed {
                return assert!(number > 4, "settling takes more than {number} steps");
            }
        }
        panic!("settling takes fewer than {MANY} steps");
    });
}

/// Endpoints and devices go from links to filters, or back.
fn mode_changed_and_killed_everywhere(to_tcx: bool) {
    Sandbox::run(|sandbox| {
        let open = |tcx| {
            let config = DatapathConfig { tcx, ..sandbox.config() };
            Arc::new(Datapath::open(&config).unwrap())
        };
        let attach = |datapath: &Datapath, (place, device): (Place, u32)| {
            hooks(datapath, |hooks| hooks.attach(place)).unwrap();
            settle(datapath, place).unwrap();
            let attach = |devices: Devices<'_>| devices.attach(device, "lxc2", DeviceKind::Native);
            datapath.devices(attach).unwrap();
        };
        let first = open(!to_tcx);
        let device = sandbox.veth(2);
        let at_device = Place { endpoint: EndpointId(9), ifindex: device };
        let places = (endpoint(sandbox, &first, 1), device);
        for number in 0..MANY {
            attach(&open(!to_tcx), places);
            let next = open(to_tcx);
            let killed = killed_before(number, || attach(&next, places));
            for place in [places.0, at_device] {
                assert_eq!(running(place).len(), 2, "before step {number}");
            }
            let next = open(to_tcx);
            attach(&next, places);
            for place in [places.0, at_device] {
                let (links, filters) =
                    (linked(place).concat().len(), filtered(place).concat().len());
                let desired = if to_tcx { (2, 0) } else { (0, 2) };
                assert_eq!((links, filters), desired, "before step {number}");
            }
            if !killed {
                return assert!(number > 10, "the change takes more than {number} steps");
            }
        }
        panic!("the change takes fewer than {MANY} steps");
    });
}

#[test]
fn a_change_from_links_to_filters_killed_anywhere_leaves_no_hook_without_a_program() {
    mode_changed_and_killed_everywhere(false);
}

#[test]
fn a_change_from_filters_to_links_killed_anywhere_leaves_no_hook_without_a_program() {
    mode_changed_and_killed_everywhere(true);
}

#[test]
fn a_policy_pin_moved_and_killed_anywhere_is_a_policy() {
    Sandbox::run(|sandbox| {
        let endpoint = EndpointId(7);
        let path = sandbox.root().join("tc/globals/cilium_policy_v2_00007");
        let pinned = || rows(&Map::pinned(&path).unwrap()).unwrap();
        let datapath: Arc<Datapath> = sandbox.open();
        flip(&datapath, 14, &policy([80]));
        flip(&datapath, 15, &policy([443]));
        for number in 0..MANY {
            datapath.policies().pin(endpoint, 14).unwrap();
            let killed = killed_before(number, || datapath.policies().pin(endpoint, 15).unwrap());
            assert!([policy([80]), policy([443])].contains(&pinned()));
            datapath.policies().pin(endpoint, 15).unwrap();
            assert_eq!(pinned(), policy([443]));
            if !killed {
                return assert!(number > 1, "moving a pin takes more than {number} steps");
            }
        }
        panic!("moving a pin takes fewer than {MANY} steps");
    });
}

#[test]
fn an_uninstall_killed_anywhere_is_finished() {
    for number in (0..MANY).step_by(3) {
        let mut killed = true;
        Sandbox::run(|sandbox| {
            let before = volvox_maps::pins::names(sandbox.root()).unwrap();
            let datapath = sandbox.open();
            let place = endpoint(sandbox, &datapath, 1);
            settle(&datapath, place).unwrap();
            drop(datapath);
            killed = killed_before(number, || drop(uninstall(sandbox.root()).unwrap()));
            uninstall(sandbox.root()).unwrap();
            let after = volvox_maps::pins::names(sandbox.root()).unwrap();
            assert_eq!(after, before, "before step {number}");
        });
        if !killed {
            return assert!(number > 10, "an uninstall takes more than {number} steps");
        }
    }
    panic!("an uninstall takes fewer than {MANY} steps");
}
