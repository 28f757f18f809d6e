//! Tests: a hook goes from filter to link to nothing, also after a crash in between, and programs
//! of another agent are left alone.

use std::{fs, os::fd::AsFd};

use volvox_actors::{
    model::EndpointId,
    ports::{Attachment, Hook, HookState, KernelError, Refusal},
};
use volvox_maps::{
    pins::{HOOKS, names, program_name},
    rows::config_to_raw,
    sys::{self, TCX_EGRESS, TCX_INGRESS},
};
use volvox_system::netlink::{Direction, Socket};

use super::sandbox::{Sandbox, config_row};
use crate::datapath::{
    Datapath,
    hooks::{Hooks, Place},
    uninstall,
};

const FILTERS: Attachment =
    Attachment { from_container: HookState::Filter, to_container: HookState::Filter };
const LINKS: Attachment =
    Attachment { from_container: HookState::Link, to_container: HookState::Link };
const DIRECTIONS: [(Direction, u32); 2] =
    [(Direction::Ingress, TCX_INGRESS), (Direction::Egress, TCX_EGRESS)];

pub(super) fn hooks<T>(
    datapath: &Datapath,
    work: impl FnOnce(&mut Hooks<'_>) -> Result<T, KernelError>,
) -> Result<T, KernelError> {
    let mut netlink = Socket::open().unwrap();
    let generation = datapath.generation();
    work(&mut Hooks::new(
        &datapath.pins,
        &generation,
        &mut netlink,
        (&datapath.writes, datapath.mode),
    ))
}

/// Settles both hooks.
pub(super) fn settle(datapath: &Datapath, place: Place) -> Result<(), KernelError> {
    HOOKS.into_iter().try_for_each(|hook| hooks(datapath, |hooks| hooks.settle(place, hook)))
}

/// Numbers of the filters' and links' programs at both hooks.
fn running(ifindex: u32) -> Vec<(usize, usize)> {
    let mut netlink = Socket::open().unwrap();
    DIRECTIONS
        .map(|(direction, hook)| {
            let filters = netlink.filter_show(ifindex, direction).unwrap();
            (filters.len(), super::tcx_programs(ifindex, hook).unwrap().len())
        })
        .to_vec()
}

/// An endpoint with an interface and a configuration row.
pub(super) fn endpoint(sandbox: &Sandbox, datapath: &Datapath, number: u8) -> Place {
    let ifindex = sandbox.veth(number);
    datapath.maps.config.put(&ifindex, &config_to_raw(&config_row(number, ifindex))).unwrap();
    Place { endpoint: EndpointId(number.into()), ifindex }
}

#[test]
fn a_hook_goes_from_filter_to_link_to_nothing() {
    Sandbox::run(|sandbox| {
        let datapath = sandbox.open();
        let place = endpoint(sandbox, &datapath, 1);
        let read = || hooks(&datapath, |hooks| hooks.read(place)).unwrap();
        assert_eq!(read(), Attachment::default());
        hooks(&datapath, |hooks| hooks.attach(place)).unwrap();
        assert_eq!((read(), running(place.ifindex)), (FILTERS, vec![(1, 0); 2]));
        settle(&datapath, place).unwrap();
        assert_eq!((read(), running(place.ifindex)), (LINKS, vec![(0, 1); 2]));
        let snapshot = datapath.snapshot().unwrap();
        assert_eq!(snapshot.attachments[&place.endpoint], LINKS);
        let before = datapath.writes().counts();
        hooks(&datapath, |hooks| hooks.attach(place)).unwrap();
        settle(&datapath, place).unwrap();
        assert_eq!(datapath.writes().counts(), before, "what is settled stays untouched");
        hooks(&datapath, |hooks| hooks.detach(place)).unwrap();
        assert_eq!(read(), Attachment::default());
        assert!(!datapath.pins.links(place.endpoint).exists());
        let mut netlink = Socket::open().unwrap();
        assert!(!netlink.clsact_del_unused(place.ifindex).unwrap(), "it is gone already");
    });
}

#[test]
fn links_outlive_the_agent() {
    Sandbox::run(|sandbox| {
        let datapath = sandbox.open();
        let place = endpoint(sandbox, &datapath, 1);
        settle(&datapath, place).unwrap();
        drop(datapath);
        assert_eq!(running(place.ifindex), vec![(0, 1); 2]);
        let next = sandbox.open();
        assert_eq!(next.snapshot().unwrap().attachments[&place.endpoint], LINKS);
    });
}

#[test]
fn settling_goes_on_where_a_crash_left_it() {
    Sandbox::run(|sandbox| {
        let datapath = sandbox.open();
        let place = endpoint(sandbox, &datapath, 1);
        hooks(&datapath, |hooks| hooks.attach(place)).unwrap();
        // Killed after a link was pinned and before the filter went.
        let program = datapath.generation();
        let link = sys::link_create(
            program.program(Hook::FromContainer).unwrap(),
            place.ifindex,
            TCX_INGRESS,
        )
        .unwrap();
        fs::create_dir_all(datapath.pins.links(place.endpoint)).unwrap();
        let unsettled = datapath.pins.unsettled_link(place.endpoint, Hook::FromContainer);
        sys::pin(link, &unsettled).unwrap();
        assert_eq!(running(place.ifindex), [(1, 1), (1, 0)]);
        assert_eq!(datapath.snapshot().unwrap().attachments[&place.endpoint], FILTERS);
        settle(&datapath, place).unwrap();
        assert_eq!(running(place.ifindex), [(0, 1), (0, 1)]);
        assert!(!unsettled.exists());
    });
}

#[test]
fn the_link_of_a_vanished_interface_is_replaced() {
    Sandbox::run(|sandbox| {
        let datapath = sandbox.open();
        let old = endpoint(sandbox, &datapath, 1);
        settle(&datapath, old).unwrap();
        Socket::open().unwrap().delete_link(old.ifindex).unwrap();
        let new = endpoint(sandbox, &datapath, 1);
        assert_ne!(new.ifindex, old.ifindex);
        assert_eq!(hooks(&datapath, |hooks| hooks.read(new)).unwrap(), Attachment::default());
        hooks(&datapath, |hooks| hooks.attach(new)).unwrap();
        settle(&datapath, new).unwrap();
        assert_eq!(hooks(&datapath, |hooks| hooks.read(new)).unwrap(), LINKS);
        // A late delete of the old one leaves the new one alone.
        hooks(&datapath, |hooks| hooks.detach(old)).unwrap();
        assert_eq!(running(new.ifindex), vec![(0, 1); 2]);
    });
}

#[test]
fn a_missing_interface_is_told() {
    Sandbox::run(|sandbox| {
        let datapath = sandbox.open();
        let place = Place { endpoint: EndpointId(1), ifindex: 999 };
        for result in [hooks(&datapath, |hooks| hooks.attach(place)), settle(&datapath, place)] {
            assert_eq!(result.unwrap_err().refusal, Refusal::NoDevice);
        }
        hooks(&datapath, |hooks| hooks.detach(place)).unwrap();
    });
}

#[test]
fn another_agents_program_is_not_replaced() {
    Sandbox::run(|sandbox| {
        let datapath = sandbox.open();
        let place = endpoint(sandbox, &datapath, 1);
        // A program of that name that does not use our maps, as a running Cilium's.
        let foreign = sys::load_pass().unwrap();
        let mut netlink = Socket::open().unwrap();
        netlink.clsact_add(place.ifindex).unwrap();
        let name = program_name(Hook::FromContainer);
        netlink.filter_add(place.ifindex, Direction::Ingress, foreign.as_fd(), name).unwrap();
        let refused = hooks(&datapath, |hooks| hooks.attach(place)).unwrap_err();
        assert_eq!(refused.refusal, Refusal::Denied);
        let shown = netlink.filter_show(place.ifindex, Direction::Ingress).unwrap();
        assert_eq!(shown[0].prog_id, sys::program_info(&foreign).unwrap().id);
        assert!(!netlink.clsact_del_unused(place.ifindex).unwrap(), "it is in use");
    });
}

#[test]
fn uninstalling_leaves_nothing() {
    Sandbox::run(|sandbox| {
        let before = names(sandbox.root()).unwrap();
        let datapath = sandbox.open();
        let linked = endpoint(sandbox, &datapath, 1);
        let filtered = endpoint(sandbox, &datapath, 2);
        settle(&datapath, linked).unwrap();
        hooks(&datapath, |hooks| hooks.attach(filtered)).unwrap();
        let mut netlink = Socket::open().unwrap();
        netlink.put_route([10, 9, 0, 1].into(), linked.ifindex).unwrap();
        let others = sandbox.veth(3);
        netlink.clsact_add(others).unwrap();
        // What an earlier version left.
        let maps = sandbox.root().join("tc/globals");
        let map = sys::Map::pinned(&maps.join("cilium_lxc")).unwrap();
        sys::pin(&map, &maps.join("cilium_runtime_config")).unwrap();
        drop((map, datapath));
        let removed = uninstall(sandbox.root()).unwrap();
        for what in ["route to 10.9.0.1", "filter cil_to_container", "link cil_", "map cilium_lxc"]
        {
            assert!(removed.iter().any(|line| line.starts_with(what)), "{what} in {removed:?}");
        }
        for ours in [linked.ifindex, filtered.ifindex] {
            assert!(!netlink.clsact_del_unused(ours).unwrap(), "it is gone already");
        }
        assert!(netlink.clsact_del_unused(others).unwrap(), "another's stays");
        assert_eq!(names(sandbox.root()).unwrap(), before);
        assert!(netlink.routes().unwrap().is_empty());
        assert_eq!(uninstall(sandbox.root()).unwrap(), Vec::<String>::new());
    });
}
