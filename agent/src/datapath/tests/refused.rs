//! Tests: programs that the kernel refuses cost what they do, and nothing else: the others serve, those of
//! the version before go on, and the next version that is taken finds all as it was.

use volvox_actors::ports::{Attachment, DeviceKind, HookState};
use volvox_bpf_progs::{DEVICE_OBJECT, OBJECT, SOCKET_OBJECT};

use super::{
    hooks::{endpoint, hooks, settle},
    resizing::{connection, replaced, sized},
    sandbox::Sandbox,
    sockets::{Cgroup, config, links},
    upgrade::{linked, other, programs, settled},
};
use crate::datapath::{Datapath, hooks::Place, loader::tests::refusing};

const SETTLED: Attachment =
    Attachment { from_container: HookState::Link, to_container: HookState::Link };

fn attach(datapath: &Datapath, place: Place) -> Result<(), String> {
    let attached = hooks(datapath, |hooks| hooks.attach(place));
    attached.and_then(|()| settle(datapath, place)).map_err(|error| error.to_string())
}

fn attach_device(datapath: &Datapath, ifindex: u32) -> Result<(), String> {
    let attached = datapath.devices(|devices| devices.attach(ifindex, "lxc9", DeviceKind::Native));
    attached.map_err(|error| error.to_string())
}

#[test]
fn a_node_whose_kernel_refuses_the_programs_of_endpoints_does_what_it_can_and_says_so() {
    Sandbox::run(|sandbox| {
        let datapath = refusing(&[OBJECT], || sandbox.open());
        let (place, device) = (endpoint(sandbox, &datapath, 1), sandbox.veth(9));
        let trouble = datapath.programs_trouble().unwrap();
        assert!(trouble.contains("R5 unbounded memory access"), "{trouble}");
        assert!(trouble.contains("endpoints get none"), "{trouble}");
        let error = attach(&datapath, place).unwrap_err();
        assert!(error.contains("R5 unbounded memory access"), "{error}");
        assert_eq!(hooks(&datapath, |hooks| hooks.read(place)).unwrap(), Attachment::default());
        assert_eq!(datapath.snapshot().unwrap().attachments, [].into());
        attach_device(&datapath, device).unwrap();
        hooks(&datapath, |hooks| hooks.detach(place)).unwrap();
        drop(datapath);
        let next = sandbox.open();
        assert_eq!(next.programs_trouble(), None);
        attach(&next, place).unwrap();
        assert_eq!(hooks(&next, |hooks| hooks.read(place)).unwrap(), SETTLED);
    });
}

#[test]
fn programs_of_the_version_before_go_on_for_new_endpoints_too() {
    Sandbox::run(|sandbox| {
        let (old, place) = settled(sandbox);
        let before = linked(place);
        let upgrade = other(&sandbox.config());
        for _ in 0..2 {
            let next = refusing(&[OBJECT], || Datapath::open(&upgrade).unwrap());
            assert_eq!((programs(&next), linked(place)), (programs(&old), before.clone()));
            let trouble = next.programs_trouble().unwrap();
            assert!(trouble.contains("those of the version before go on"), "{trouble}");
            assert_eq!(hooks(&next, |hooks| hooks.read(place)).unwrap(), SETTLED);
            refusing(&[OBJECT], || next.load().unwrap_err());
            assert_eq!(linked(place), before);
        }
        let next = refusing(&[OBJECT], || Datapath::open(&upgrade).unwrap());
        let new = endpoint(sandbox, &next, 2);
        attach(&next, new).unwrap();
        assert_eq!(linked(new), before);
        drop(next);
        let next = Datapath::open(&upgrade).unwrap();
        assert_eq!(next.programs_trouble(), None);
        for place in [place, new] {
            assert_eq!(linked(place), programs(&next).map(|id| vec![id]));
        }
        assert_ne!(linked(place), before);
    });
}

/// Then the programs before do not know the new map.
#[test]
fn a_refusal_amid_a_change_of_a_map_s_size_loses_no_connection() {
    Sandbox::run(|sandbox| {
        let (old, place) = settled(sandbox);
        let before = linked(place);
        let (key, row) = connection(1, 1);
        old.maps.ct4[0].put(&key, &row).unwrap();
        let next = refusing(&[OBJECT], || Datapath::open(&sized(sandbox, 8192)).unwrap());
        assert_eq!(linked(place), before);
        assert!(next.programs_trouble().unwrap().contains("goes on as it is"));
        assert!(attach(&next, endpoint(sandbox, &next, 2)).is_err());
        assert!(!replaced(&next.maps).is_empty(), "programs that run use the map before");
        let (later, row_later) = connection(2, 1);
        old.maps.ct4[0].put(&later, &row_later).unwrap();
        drop(next);
        let next = Datapath::open(&sized(sandbox, 8192)).unwrap();
        assert_eq!((next.programs_trouble(), replaced(&next.maps)), (None, [].into()));
        assert_eq!(linked(place), programs(&next).map(|id| vec![id]));
        assert_eq!(next.maps.ct4[0].get(&key).unwrap(), Some(row));
        assert_eq!(next.maps.ct4[0].get(&later).unwrap(), Some(row_later));
    });
}

#[test]
fn programs_of_devices_that_are_refused_cost_no_endpoint_anything() {
    Sandbox::run(|sandbox| {
        let (old, place) = settled(sandbox);
        let device = sandbox.veth(9);
        let at_device = Place { ifindex: device, ..place };
        attach_device(&old, device).unwrap();
        let before = linked(at_device);
        refusing(&[DEVICE_OBJECT], || {
            let next = Datapath::open(&other(&sandbox.config())).unwrap();
            assert_eq!(next.programs_trouble(), None);
            assert_eq!(linked(place), programs(&next).map(|id| vec![id]));
            let error = attach_device(&next, device).unwrap_err();
            assert!(error.contains("R5 unbounded memory access"), "{error}");
            assert_eq!(linked(at_device), before);
            attach(&next, endpoint(sandbox, &next, 2)).unwrap();
        });
    });
}

#[test]
fn programs_of_sockets_that_are_refused_leave_those_before_and_all_else_serves() {
    Sandbox::run(|sandbox| {
        let cgroup = Cgroup::new("refused");
        let config = config(sandbox, Some(&cgroup.path));
        let first = refusing(&[SOCKET_OBJECT], || Datapath::open(&config).unwrap());
        assert!(first.sockets_trouble().unwrap().contains("R5 unbounded memory access"));
        let place = endpoint(sandbox, &first, 1);
        attach(&first, place).unwrap();
        let error = refusing(&[SOCKET_OBJECT], || first.settle_sockets().unwrap_err());
        assert!(error.to_string().contains("R5 unbounded memory access"), "{error}");
        first.settle_sockets().unwrap();
        assert_eq!(first.sockets_trouble(), None);
        let before = links(sandbox);
        let upgrade = other(&config);
        let next = refusing(&[SOCKET_OBJECT], || Datapath::open(&upgrade).unwrap());
        assert_eq!(links(sandbox), before);
        assert_eq!(linked(place), programs(&next).map(|id| vec![id]));
        assert!(next.sockets_trouble().unwrap().contains("R5 unbounded memory access"));
        drop((first, next));
        let next = Datapath::open(&upgrade).unwrap();
        assert_eq!(next.sockets_trouble(), None);
        assert!(links(sandbox).iter().all(|(hook, (program, _))| before[hook].0 != *program));
    });
}
