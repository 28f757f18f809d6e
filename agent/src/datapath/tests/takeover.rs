//! The hook is the truth: what runs there is asked of the kernel, and what an earlier run left is taken
//! over, whatever became of its pins.

use std::os::fd::AsFd;

use rustix::mount::{MountFlags, mount};
use volvox_actors::ports::{Attachment, DeviceKind, Hook, HookState};
use volvox_maps::sys::{self, TCX_EGRESS, TCX_INGRESS};
use volvox_system::netlink::Socket;

use super::{
    hooks::{endpoint, hooks, settle},
    sandbox::Sandbox,
    tcx_programs,
    upgrade::{filtered, linked, other, programs},
};
use crate::datapath::{Datapath, hooks::Place, link::PinnedLink};

const LINKS: Attachment =
    Attachment { from_container: HookState::Link, to_container: HookState::Link };

/// Another BPF file system comes over the one that there is.
fn hide(sandbox: &Sandbox) {
    mount("bpf", sandbox.root(), "bpf", MountFlags::empty(), None).unwrap();
}

fn read(datapath: &Datapath, place: Place) -> Attachment {
    hooks(datapath, |hooks| hooks.read(place)).unwrap()
}

fn attach(datapath: &Datapath, place: Place) {
    hooks(datapath, |hooks| hooks.attach(place)).unwrap();
}

/// Both hooks run these programs, each once and nothing else.
fn run_alone(place: Place, expected: [u32; 2]) {
    assert_eq!(linked(place), expected.map(|id| vec![id]));
    assert!(filtered(place).iter().all(Vec::is_empty));
}

#[test]
fn what_runs_under_a_hidden_file_system_is_taken_over_with_its_maps() {
    Sandbox::run(|sandbox| {
        let before = sandbox.open();
        let place = endpoint(sandbox, &before, 1);
        settle(&before, place).unwrap();
        let config = before.maps.config.get(&place.ifindex).unwrap();
        assert!(config.is_some());
        let old = programs(&before);
        drop(before);
        hide(sandbox);
        let next = sandbox.open();
        assert_eq!(next.maps.config.get(&place.ifindex).unwrap(), config, "the map is the same");
        assert_eq!(read(&next, place), LINKS);
        run_alone(place, programs(&next));
        assert_ne!(programs(&next), old);
        // It is as if nothing had been: the next run writes nothing, and what goes is gone.
        drop(next);
        let next = sandbox.open();
        assert_eq!(read(&next, place), LINKS);
        assert_eq!(next.writes().counts().iter().map(|(_, count)| count).sum::<u64>(), 0);
        hooks(&next, |hooks| hooks.detach(place)).unwrap();
        assert!(linked(place).iter().all(Vec::is_empty), "the hidden pins do not keep it");
    });
}

#[test]
fn pins_that_are_hidden_or_removed_under_a_living_agent_are_made_again() {
    Sandbox::run(|sandbox| {
        let datapath = sandbox.open();
        let place = endpoint(sandbox, &datapath, 1);
        settle(&datapath, place).unwrap();
        hide(sandbox);
        assert_eq!(datapath.see_mount(), None);
        assert!(datapath.pins.map("cilium_lxc").exists());
        assert_eq!(read(&datapath, place).from_container, HookState::Stale);
        attach(&datapath, place);
        assert_eq!(read(&datapath, place), LINKS);
        run_alone(place, programs(&datapath));
        let ours = programs(&datapath);
        drop(datapath);
        let next = sandbox.open();
        assert_eq!((programs(&next), read(&next, place)), (ours, LINKS), "nothing is loaded anew");
        // Who holds a link that has lost its pin keeps it alive: it is pinned again.
        let path = next.pins.link(place.endpoint, Hook::FromContainer);
        let held = sys::get(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        attach(&next, place);
        assert_eq!(read(&next, place), LINKS);
        drop(held);
        // Nobody holds it: it is gone, and made again.
        std::fs::remove_file(&path).unwrap();
        let gone = (0..500).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(2));
            linked(place)[0].is_empty()
        });
        // What the hidden file system pins lives on.
        if gone {
            assert_eq!(read(&next, place).from_container, HookState::Empty);
        }
        attach(&next, place);
        settle(&next, place).unwrap();
        assert_eq!(read(&next, place), LINKS);
        run_alone(place, ours);
    });
}

#[test]
fn a_detached_link_is_seen_and_made_again() {
    Sandbox::run(|sandbox| {
        let datapath = sandbox.open();
        let place = endpoint(sandbox, &datapath, 1);
        settle(&datapath, place).unwrap();
        let path = datapath.pins.link(place.endpoint, Hook::ToContainer);
        sys::link_detach(sys::get(&path).unwrap()).unwrap();
        assert_eq!(read(&datapath, place).to_container, HookState::Empty);
        assert_eq!(
            datapath.snapshot().unwrap().attachments[&place.endpoint],
            read(&datapath, place)
        );
        attach(&datapath, place);
        settle(&datapath, place).unwrap();
        assert_eq!(read(&datapath, place), LINKS);
        run_alone(place, programs(&datapath));
    });
}

#[test]
fn somebody_elses_program_before_ours_is_named_and_ours_put_first() {
    Sandbox::run(|sandbox| {
        let datapath = sandbox.open();
        let place = endpoint(sandbox, &datapath, 1);
        let foreign = sys::load_pass().unwrap();
        let id = sys::program_info(&foreign).unwrap().id;
        for settled in [false, true] {
            attach(&datapath, place);
            if settled {
                settle(&datapath, place).unwrap();
            }
            let link = sys::link_create(foreign.as_fd(), place.ifindex, TCX_INGRESS).unwrap();
            let state = read(&datapath, place).from_container;
            assert!(matches!(state, HookState::Behind(who) if who.program == id), "{state:?}");
            assert!(read(&datapath, place).trouble().unwrap().contains(&format!("program {id}")));
            attach(&datapath, place);
            assert!(read(&datapath, place).serves());
            let [ours, _] = programs(&datapath);
            assert_eq!(linked(place)[0], [ours, id], "the other one stays, behind ours");
            settle(&datapath, place).unwrap();
            assert_eq!(read(&datapath, place), LINKS);
            assert_eq!(
                (linked(place)[0].clone(), filtered(place)[0].clone()),
                (vec![ours, id], vec![])
            );
            drop(link);
        }
    });
}

#[test]
fn of_two_programs_of_ours_one_stays() {
    Sandbox::run(|sandbox| {
        let before = sandbox.open();
        let place = endpoint(sandbox, &before, 1);
        settle(&before, place).unwrap();
        let old = before.generation();
        let next = Datapath::open(&other(&sandbox.config())).unwrap();
        assert_eq!(read(&next, place), LINKS);
        let link =
            sys::link_create(old.program(Hook::FromContainer).unwrap(), place.ifindex, TCX_INGRESS);
        let link = link.unwrap();
        assert_eq!(linked(place)[0].len(), 2);
        assert_eq!(read(&next, place).from_container, HookState::Stale);
        attach(&next, place);
        assert_eq!(read(&next, place), LINKS);
        run_alone(place, programs(&next));
        drop(link);
    });
}

#[test]
fn devices_are_looked_at_as_well() {
    const NATIVE: DeviceKind = DeviceKind::Native;
    Sandbox::run(|sandbox| {
        let datapath = sandbox.open();
        let ifindex = sandbox.veth(1);
        let attach = |datapath: &Datapath| {
            datapath.devices(|devices| devices.attach(ifindex, "lxc1", NATIVE)).unwrap();
        };
        let state = |datapath: &Datapath| {
            let tables = datapath.devices(|devices| devices.read()).unwrap();
            tables.links.get(&ifindex).map(|links| links.state)
        };
        let running = |hook| tcx_programs(ifindex, hook).unwrap();
        attach(&datapath);
        let ours = running(TCX_INGRESS);
        let foreign = sys::load_pass().unwrap();
        let id = sys::program_info(&foreign).unwrap().id;
        let link = sys::link_create(foreign.as_fd(), ifindex, TCX_INGRESS).unwrap();
        assert!(matches!(state(&datapath), Some(HookState::Behind(who)) if who.program == id));
        attach(&datapath);
        assert_eq!(state(&datapath), Some(HookState::Link));
        assert_eq!(running(TCX_INGRESS), [ours[0], id]);
        drop(link);
        // Somebody detaches one.
        let path = datapath.pins.device("lxc1").join("links/cil_to_netdev");
        PinnedLink::open(&path).unwrap().unwrap().end(&datapath.writes).unwrap();
        assert_ne!(state(&datapath), Some(HookState::Link));
        attach(&datapath);
        assert_eq!(state(&datapath), Some(HookState::Link));
        // Another BPF file system, under the living agent and then for the next one.
        for _ in 0..2 {
            hide(sandbox);
            assert_eq!(datapath.see_mount(), None);
            attach(&datapath);
            assert_eq!(state(&datapath), Some(HookState::Link));
            assert!([TCX_INGRESS, TCX_EGRESS].iter().all(|hook| running(*hook).len() == 1));
        }
        let mut netlink = Socket::open().unwrap();
        assert!(
            netlink
                .filter_show(ifindex, volvox_system::netlink::Direction::Ingress)
                .unwrap()
                .is_empty()
        );
        drop(datapath);
        hide(sandbox);
        let next = sandbox.open();
        assert_eq!(state(&next), None);
        attach(&next);
        assert_eq!(state(&next), Some(HookState::Link));
        assert!([TCX_INGRESS, TCX_EGRESS].iter().all(|hook| running(*hook).len() == 1));
    });
}
