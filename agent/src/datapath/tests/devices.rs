//! Tests: programs at the node's devices are attached, upgraded, detached and survive a rename, and
//! the rows about devices are read as they were written.

use std::{collections::BTreeSet, fs, thread, time::Duration};

use volvox_actors::{
    model::Mac,
    ports::{DeviceKind, DeviceLinks, DeviceRow, DeviceTables, HookState, KernelOp, KernelOutcome},
};
use volvox_maps::sys::{TCX_EGRESS, TCX_INGRESS};
use volvox_system::netlink::Socket;

use super::{
    sandbox::{Sandbox, addresses},
    upgrade::other,
};
use crate::datapath::{Datapath, MapSizes, devices::Devices, step::Stepper, uninstall};
const NATIVE: DeviceKind = DeviceKind::Native;

fn attach(datapath: &Datapath, ifindex: u32, name: &str) {
    datapath.devices(|devices| devices.attach(ifindex, name, NATIVE)).unwrap();
}

fn tables(datapath: &Datapath) -> DeviceTables {
    datapath.devices(|devices| devices.read()).unwrap()
}

/// The programs that run at an interface, in and out.
fn running(ifindex: u32) -> [Vec<u32>; 2] {
    [TCX_INGRESS, TCX_EGRESS].map(|hook| super::tcx_programs(ifindex, hook).unwrap())
}

/// Whether nothing runs there.
fn is_bare(ifindex: u32) -> bool {
    within_a_second(|| running(ifindex).iter().all(Vec::is_empty))
}

/// The kernel lets go of a link a moment after its pin.
fn within_a_second(is_so: impl Fn() -> bool) -> bool {
    (0..500).any(|_| {
        thread::sleep(Duration::from_millis(2));
        is_so()
    })
}

fn links(name: &str, state: HookState) -> DeviceLinks {
    DeviceLinks { name: name.to_owned(), kind: NATIVE, state }
}

#[test]
fn a_device_runs_its_programs_until_it_is_detached() {
    Sandbox::run(|sandbox| {
        let (datapath, ifindex) = (sandbox.open(), sandbox.veth(1));
        attach(&datapath, ifindex, "lxc1");
        let before = running(ifindex);
        assert!(before.iter().all(|programs| programs.len() == 1), "{before:?}");
        assert_eq!(tables(&datapath).links, [(ifindex, links("lxc1", HookState::Link))].into());
        attach(&datapath, ifindex, "lxc1");
        assert_eq!(running(ifindex), before);
        // The next life finds it as it is to be, and loads nothing.
        drop(datapath);
        let datapath = sandbox.open();
        assert_eq!(tables(&datapath).links, [(ifindex, links("lxc1", HookState::Link))].into());
        attach(&datapath, ifindex, "lxc1");
        assert_eq!(running(ifindex), before);
        assert_eq!(datapath.writes.counts().iter().map(|(_, count)| count).sum::<u64>(), 0);
        datapath.devices(|devices| devices.detach("lxc1")).unwrap();
        assert!(is_bare(ifindex));
        assert_eq!(tables(&datapath), DeviceTables::default());
    });
}

#[test]
fn an_upgrade_switches_devices_when_they_are_asked_for() {
    Sandbox::run(|sandbox| {
        let (datapath, ifindex) = (sandbox.open(), sandbox.veth(1));
        attach(&datapath, ifindex, "lxc1");
        let before = running(ifindex);
        let upgraded = Datapath::open(&other(&sandbox.config())).unwrap();
        assert_eq!(running(ifindex), before, "what serves may serve on");
        assert_eq!(tables(&upgraded).links, [(ifindex, links("lxc1", HookState::Stale))].into());
        attach(&upgraded, ifindex, "lxc1");
        let after = running(ifindex);
        assert!(after.iter().zip(&before).all(|(now, then)| now.len() == 1 && now != then));
        assert_eq!(tables(&upgraded).links, [(ifindex, links("lxc1", HookState::Link))].into());
        // The other one sees programs that are not its own.
        assert_eq!(tables(&datapath).links, [(ifindex, links("lxc1", HookState::Stale))].into());
        upgraded.load().unwrap();
        assert_ne!(running(ifindex), after);
        assert_eq!(tables(&upgraded).links, [(ifindex, links("lxc1", HookState::Link))].into());
    });
}

/// An earlier version had none on the way out, unless the node had a policy.
#[test]
fn a_program_that_an_overlay_lacks_comes_and_the_other_stays() {
    Sandbox::run(|sandbox| {
        let ifindex = sandbox.veth(1);
        let links = |state| {
            let name = "lxc1".to_owned();
            [(ifindex, DeviceLinks { name, kind: DeviceKind::Overlay, state })].into()
        };
        let datapath = sandbox.open();
        let attach = || {
            let attach =
                |devices: Devices<'_>| devices.attach(ifindex, "lxc1", DeviceKind::Overlay);
            datapath.devices(attach).unwrap();
            assert_eq!(tables(&datapath).links, links(HookState::Link));
            running(ifindex)
        };
        let before = attach();
        assert_eq!(before.clone().map(|programs| programs.len()), [1, 1]);
        fs::remove_file(datapath.pins.device("lxc1").join("links/cil_to_overlay")).unwrap();
        assert!(within_a_second(|| running(ifindex)[1].is_empty()));
        assert_eq!(tables(&datapath).links, links(HookState::Stale));
        assert_eq!(attach(), before);
    });
}

#[test]
fn maps_of_another_size_are_used_at_devices_at_once() {
    Sandbox::run(|sandbox| {
        let (datapath, ifindex) = (sandbox.open(), sandbox.veth(1));
        attach(&datapath, ifindex, "lxc1");
        let before = running(ifindex);
        for change in
            [|sizes: &mut MapSizes| sizes.ct_tcp = 8192, |sizes: &mut MapSizes| sizes.nat = 8192]
        {
            let mut config = sandbox.config();
            change(&mut config.sizes);
            let resized = Datapath::open(&config).unwrap();
            assert_ne!(running(ifindex), before);
            let links = [(ifindex, links("lxc1", HookState::Link))].into();
            assert_eq!(tables(&resized).links, links);
        }
    });
}

#[test]
fn a_device_that_is_gone_leaves_pins_that_are_told_and_go() {
    Sandbox::run(|sandbox| {
        let (datapath, ifindex) = (sandbox.open(), sandbox.veth(1));
        attach(&datapath, ifindex, "lxc1");
        Socket::open().unwrap().delete_link(ifindex).unwrap();
        let found = tables(&datapath);
        assert_eq!((found.links.len(), found.gone), (0, BTreeSet::from(["lxc1".to_owned()])));
        // Another one of that name has another number.
        let ifindex = sandbox.veth(1);
        attach(&datapath, ifindex, "lxc1");
        let found = tables(&datapath);
        assert_eq!(found.links, [(ifindex, links("lxc1", HookState::Link))].into());
        assert_eq!(found.gone, BTreeSet::new());
    });
}

#[test]
fn a_device_that_is_renamed_never_is_without_its_programs() {
    Sandbox::run(|sandbox| {
        let (datapath, ifindex) = (sandbox.open(), sandbox.veth(1));
        attach(&datapath, ifindex, "lxc1");
        let before = running(ifindex);
        attach(&datapath, ifindex, "wan0");
        assert_eq!(running(ifindex), before);
        assert_eq!(tables(&datapath).links, [(ifindex, links("wan0", HookState::Link))].into());
    });
}

#[test]
fn rows_of_devices_and_destinations_are_written_and_read() {
    Sandbox::run(|sandbox| {
        let mut stepper = Stepper::new(&sandbox.open());
        let row =
            DeviceRow { addresses: addresses(1), mac: Mac([2, 0, 0, 0, 0, 9]), flags: 0b1011 };
        let all = ["10.0.0.0/8", "fd00::/16", "192.0.2.7/32"].map(|text| text.parse().unwrap());
        let mut step = |op| match stepper.step(op).unwrap() {
            KernelOutcome::Devices(tables) => Some(*tables),
            _ => None,
        };
        step(KernelOp::PutDevice { ifindex: 3, row });
        step(KernelOp::PutUnmasqueraded(all.to_vec()));
        let found = step(KernelOp::ReadDevices).unwrap();
        assert_eq!((found.rows, found.unmasqueraded), ([(3, row)].into(), all.into()));
        step(KernelOp::DeleteDevice { ifindex: 3 });
        step(KernelOp::DeleteUnmasqueraded(all[..2].to_vec()));
        let found = step(KernelOp::ReadDevices).unwrap();
        assert_eq!((found.rows.len(), found.unmasqueraded), (0, [all[2]].into()));
    });
}

#[test]
fn uninstalling_detaches_devices() {
    Sandbox::run(|sandbox| {
        let (datapath, ifindex) = (sandbox.open(), sandbox.veth(1));
        attach(&datapath, ifindex, "lxc1");
        drop(datapath);
        let removed = uninstall(sandbox.root()).unwrap();
        for program in ["cil_from_netdev", "cil_to_netdev"] {
            assert!(removed.contains(&format!("link {program} of device lxc1")), "{removed:?}");
        }
        assert!(is_bare(ifindex));
        assert!(!sandbox.root().join("cilium").exists());
    });
}
