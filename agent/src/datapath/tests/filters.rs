//! Tests: where there are no TCX links, or none are wanted, filters do their work: they outlive the agent,
//! are replaced in place, and a change between the two leaves one of them.

use std::{collections::BTreeSet, fs, os::fd::AsFd, sync::Arc};

use volvox_actors::{
    model::EndpointId,
    ports::{
        Attachment, DeviceKind, DeviceLinks, DeviceTables, Hook, HookState, Intruder, Refusal,
    },
};
use volvox_maps::{
    pins::program_name,
    sys::{self, TCX_EGRESS, TCX_INGRESS},
};
use volvox_system::netlink::{Direction, Socket};

use super::{
    hooks::{endpoint, hooks, settle},
    sandbox::Sandbox,
    upgrade::{filtered, linked, other, programs},
};
use crate::datapath::{AttachMode, Datapath, DatapathConfig, MapSizes, hooks::Place, uninstall};

const SETTLED: Attachment =
    Attachment { from_container: HookState::Link, to_container: HookState::Link };

fn config(sandbox: &Sandbox, tcx: bool) -> DatapathConfig {
    DatapathConfig { tcx, ..sandbox.config() }
}

fn open(sandbox: &Sandbox, tcx: bool) -> Arc<Datapath> {
    Arc::new(Datapath::open(&config(sandbox, tcx)).unwrap())
}

/// How many run at both hooks of an interface, by filters and by links.
fn running(ifindex: u32) -> [(usize, usize); 2] {
    let place = Place { endpoint: EndpointId(1), ifindex };
    let (filters, links) = (filtered(place), linked(place));
    [0, 1].map(|nth| (filters[nth].len(), links[nth].len()))
}

fn read(datapath: &Datapath, place: Place) -> Attachment {
    let read = hooks(datapath, |hooks| hooks.read(place)).unwrap();
    let snapshot = datapath.snapshot().unwrap();
    assert_eq!(snapshot.attachments.get(&place.endpoint).copied().unwrap_or_default(), read);
    read
}

fn attach(datapath: &Datapath, place: Place) {
    hooks(datapath, |hooks| hooks.attach(place)).unwrap();
    settle(datapath, place).unwrap();
}

fn attach_device(datapath: &Datapath, ifindex: u32, name: &str, kind: DeviceKind) {
    datapath.devices(|devices| devices.attach(ifindex, name, kind)).unwrap();
}

fn tables(datapath: &Datapath) -> DeviceTables {
    datapath.devices(|devices| devices.read()).unwrap()
}

fn links(name: &str, kind: DeviceKind, state: HookState) -> DeviceLinks {
    DeviceLinks { name: name.to_owned(), kind, state }
}

fn writes(datapath: &Datapath) -> u64 {
    datapath.writes().counts().iter().map(|(_, count)| count).sum()
}

#[test]
fn an_endpoint_is_settled_with_filters_which_outlive_the_agent_and_are_replaced_in_place() {
    Sandbox::run(|sandbox| {
        let datapath = open(sandbox, false);
        assert_eq!(datapath.attach_mode(), AttachMode::Clsact);
        let place = endpoint(sandbox, &datapath, 1);
        assert_eq!(read(&datapath, place), Attachment::default());
        attach(&datapath, place);
        assert_eq!((read(&datapath, place), running(place.ifindex)), (SETTLED, [(1, 0); 2]));
        let before = filtered(place);
        drop(datapath);
        let next = open(sandbox, false);
        assert_eq!(read(&next, place), SETTLED);
        attach(&next, place);
        assert_eq!((filtered(place), writes(&next)), (before, 0));
        let upgraded = Datapath::open(&other(&config(sandbox, false))).unwrap();
        assert_eq!(filtered(place), programs(&upgraded).map(|id| vec![id]));
        upgraded.load().unwrap();
        assert_eq!(filtered(place), programs(&upgraded).map(|id| vec![id]));
        hooks(&upgraded, |hooks| hooks.detach(place)).unwrap();
        assert_eq!(running(place.ifindex), [(0, 0); 2]);
        assert!(!Socket::open().unwrap().clsact_del_unused(place.ifindex).unwrap());
    });
}

#[test]
fn devices_have_filters_that_are_found_again_replaced_renamed_and_removed() {
    for kind in [DeviceKind::Native, DeviceKind::Overlay] {
        Sandbox::run(|sandbox| {
            let (datapath, ifindex) = (open(sandbox, false), sandbox.veth(1));
            let place = Place { endpoint: EndpointId(1), ifindex };
            let settled = |name| [(ifindex, links(name, kind, HookState::Link))].into();
            attach_device(&datapath, ifindex, "lxc1", kind);
            assert_eq!((tables(&datapath).links, running(ifindex)), (settled("lxc1"), [(1, 0); 2]));
            let before = filtered(place);
            drop(datapath);
            let datapath = open(sandbox, false);
            assert_eq!(tables(&datapath).links, settled("lxc1"));
            attach_device(&datapath, ifindex, "lxc1", kind);
            assert_eq!((filtered(place), writes(&datapath)), (before.clone(), 0));
            attach_device(&datapath, ifindex, "wan0", kind);
            assert_eq!(
                (tables(&datapath).links, filtered(place)),
                (settled("wan0"), before.clone())
            );
            drop(datapath);

            let upgraded = Datapath::open(&other(&config(sandbox, false))).unwrap();
            assert_eq!(filtered(place), before, "what serves may serve on");
            let stale = [(ifindex, links("wan0", kind, HookState::Stale))].into();
            assert_eq!(tables(&upgraded).links, stale);
            attach_device(&upgraded, ifindex, "wan0", kind);
            assert_eq!(tables(&upgraded).links, settled("wan0"));
            upgraded.load().unwrap();
            assert_eq!(tables(&upgraded).links, settled("wan0"));
            assert_eq!(running(ifindex), [(1, 0); 2]);
            let before = filtered(place);
            let mut resized = other(&config(sandbox, false));
            resized.sizes = MapSizes { ct_tcp: 8192, ..resized.sizes };
            let resized = Datapath::open(&resized).unwrap();
            assert_ne!(
                filtered(place),
                before,
                "programs with maps that were replaced cannot stay"
            );
            assert_eq!(tables(&resized).links, settled("wan0"));

            Socket::open()
                .unwrap()
                .filter_del(ifindex, Direction::Ingress, NAMES[kind as usize])
                .unwrap();
            assert_eq!(tables(&resized).links, stale_of(ifindex, kind));
            attach_device(&resized, ifindex, "wan0", kind);
            assert_eq!(tables(&resized).links, settled("wan0"));
            resized.devices(|devices| devices.detach("wan0")).unwrap();
            assert_eq!(
                (tables(&resized), running(ifindex)),
                (DeviceTables::default(), [(0, 0); 2])
            );
            assert!(!sandbox.root().join("cilium/devices/wan0").exists());
        });
    }
}

/// The programs of what comes in, by kind.
const NAMES: [&str; 2] = ["cil_from_netdev", "cil_from_overlay"];

fn stale_of(ifindex: u32, kind: DeviceKind) -> std::collections::BTreeMap<u32, DeviceLinks> {
    [(ifindex, links("wan0", kind, HookState::Stale))].into()
}

#[test]
fn a_device_that_is_gone_leaves_a_note_that_is_told_and_goes() {
    Sandbox::run(|sandbox| {
        let (datapath, ifindex) = (open(sandbox, false), sandbox.veth(1));
        attach_device(&datapath, ifindex, "lxc1", DeviceKind::Native);
        Socket::open().unwrap().delete_link(ifindex).unwrap();
        let found = tables(&datapath);
        assert_eq!((found.links.len(), found.gone), (0, BTreeSet::from(["lxc1".to_owned()])));
        // Another one of that name has another number.
        let ifindex = sandbox.veth(1);
        attach_device(&datapath, ifindex, "lxc1", DeviceKind::Native);
        let found = tables(&datapath);
        let settled = links("lxc1", DeviceKind::Native, HookState::Link);
        assert_eq!((found.links, found.gone), ([(ifindex, settled)].into(), BTreeSet::new()));
        Socket::open().unwrap().delete_link(ifindex).unwrap();
        datapath.devices(|devices| devices.detach("lxc1")).unwrap();
        assert_eq!(tables(&datapath), DeviceTables::default());
    });
}

#[test]
fn a_change_between_links_and_filters_leaves_one_of_them() {
    for kind in [DeviceKind::Native, DeviceKind::Overlay] {
        Sandbox::run(|sandbox| {
            let datapath = open(sandbox, true);
            let place = endpoint(sandbox, &datapath, 1);
            let device = sandbox.veth(2);
            for (tcx, each) in [(true, (0, 1)), (false, (1, 0)), (true, (0, 1)), (false, (1, 0))] {
                let datapath = open(sandbox, tcx);
                attach(&datapath, place);
                attach_device(&datapath, device, "lxc2", kind);
                assert_eq!(read(&datapath, place), SETTLED);
                let settled = links("lxc2", kind, HookState::Link);
                assert_eq!(tables(&datapath).links, [(device, settled)].into());
                for ifindex in [place.ifindex, device] {
                    assert_eq!(running(ifindex), [each; 2], "TCX is {tcx}");
                }
                // Before it is attached again, it is known that it is to be.
                let next = open(sandbox, !tcx);
                let stale = links("lxc2", kind, HookState::Stale);
                assert_eq!(tables(&next).links, [(device, stale)].into());
            }
        });
    }
}

#[test]
fn links_whose_pins_are_lost_go_too() {
    Sandbox::run(|sandbox| {
        let datapath = open(sandbox, true);
        let (place, device) = (endpoint(sandbox, &datapath, 1), sandbox.veth(2));
        attach(&datapath, place);
        attach_device(&datapath, device, "lxc2", DeviceKind::Native);
        let _held: Vec<_> = [place.ifindex, device]
            .into_iter()
            .flat_map(|ifindex| [TCX_INGRESS, TCX_EGRESS].map(|hook| (ifindex, hook)))
            .map(|(ifindex, hook)| sys::link_by_id(sys::running(ifindex, hook).unwrap()[0].link))
            .collect();
        fs::remove_dir_all(sandbox.root().join("cilium")).unwrap();
        let next = open(sandbox, false);
        attach(&next, place);
        attach_device(&next, device, "lxc2", DeviceKind::Native);
        assert_eq!([running(place.ifindex), running(device)], [[(1, 0); 2]; 2]);
        assert_eq!(read(&next, place), SETTLED);
    });
}

#[test]
fn what_others_have_there_is_neither_replaced_nor_removed_and_is_named() {
    Sandbox::run(|sandbox| {
        let datapath = open(sandbox, false);
        let (place, device) = (endpoint(sandbox, &datapath, 1), sandbox.veth(2));
        let foreign = sys::load_pass().unwrap();
        let foreign_id = sys::program_info(&foreign).unwrap().id;
        let mut netlink = Socket::open().unwrap();
        // At the place that Cilium's programs have, of its name and of another.
        for (ifindex, name) in [
            (place.ifindex, program_name(Hook::FromContainer)),
            (device, "cil_from_netdev"),
            (sandbox.veth(3), "somebody"),
        ] {
            netlink.clsact_add(ifindex).unwrap();
            netlink.filter_add(ifindex, Direction::Ingress, foreign.as_fd(), name).unwrap();
        }
        let refused = hooks(&datapath, |hooks| hooks.attach(place)).unwrap_err();
        assert_eq!(refused.refusal, Refusal::Denied, "{refused}");
        let attach = |ifindex, name: &str| {
            datapath.devices(|devices| devices.attach(ifindex, name, DeviceKind::Native))
        };
        let third = netlink.link_by_name("lxc3").unwrap().unwrap().ifindex;
        for (ifindex, name) in [(device, "lxc2"), (third, "lxc3")] {
            assert_eq!(attach(ifindex, name).unwrap_err().refusal, Refusal::Denied);
        }
        for ifindex in [place.ifindex, device, third] {
            let place = Place { endpoint: EndpointId(9), ifindex };
            assert_eq!(filtered(place)[0], [foreign_id]);
            datapath.devices(|devices| devices.detach("lxc2")).unwrap();
            assert_eq!(filtered(place)[0], [foreign_id]);
        }
        drop(datapath);
        uninstall(sandbox.root()).unwrap();
        for ifindex in [place.ifindex, device, third] {
            assert_eq!(running(ifindex)[0], (1, 0), "another agent's filter stays");
        }
    });
}

#[test]
fn somebody_s_link_before_a_filter_is_named() {
    Sandbox::run(|sandbox| {
        let datapath = open(sandbox, false);
        let (place, device) = (endpoint(sandbox, &datapath, 1), sandbox.veth(2));
        attach(&datapath, place);
        attach_device(&datapath, device, "lxc2", DeviceKind::Native);
        let foreign = sys::load_pass().unwrap();
        let program = sys::program_info(&foreign).unwrap();
        let behind = HookState::Behind(Intruder { program: program.id, name: program.name });
        let _links = [place.ifindex, device]
            .map(|ifindex| sys::link_create(&foreign, ifindex, TCX_INGRESS).unwrap());
        let attachment = Attachment { from_container: behind, ..SETTLED };
        assert_eq!(read(&datapath, place), attachment);
        assert_eq!(tables(&datapath).links[&device].state, behind);
        let refused = hooks(&datapath, |hooks| hooks.attach(place)).unwrap_err().to_string();
        assert!(refused.contains("--enable-tcx=true"), "{refused}");
        // With links it is put right.
        let linked = open(sandbox, true);
        attach(&linked, place);
        assert_eq!(read(&linked, place), SETTLED);
    });
}

#[test]
fn uninstalling_removes_filters_of_endpoints_and_of_devices() {
    Sandbox::run(|sandbox| {
        let datapath = open(sandbox, false);
        let (place, device, tunnel) =
            (endpoint(sandbox, &datapath, 1), sandbox.veth(2), sandbox.veth(3));
        attach(&datapath, place);
        attach_device(&datapath, device, "lxc2", DeviceKind::Native);
        attach_device(&datapath, tunnel, "lxc3", DeviceKind::Overlay);
        drop(datapath);
        let removed = uninstall(sandbox.root()).unwrap();
        for program in ["cil_from_container", "cil_from_netdev", "cil_to_overlay"] {
            let line = format!("filter {program} at interface");
            assert!(removed.iter().any(|removed| removed.starts_with(&line)), "{removed:?}");
        }
        for ifindex in [place.ifindex, device, tunnel] {
            assert_eq!(running(ifindex), [(0, 0); 2]);
            assert!(!Socket::open().unwrap().clsact_del_unused(ifindex).unwrap());
        }
        assert!(!sandbox.root().join("cilium").exists());
        assert_eq!(uninstall(sandbox.root()).unwrap(), Vec::<String>::new());
    });
}
