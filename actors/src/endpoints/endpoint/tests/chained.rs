//! Tests: an endpoint whose interface and addresses are another plugin's.

use std::time::Duration;

use crate::{
    endpoints::{
        endpoint::{EndpointSpec, chained_datapath},
        supervisor::EndpointReference,
    },
    model::EndpointId,
    ports::{FsOp, KernelOp, config_flags},
    restore::RestoreOutcome,
    testing::{World, pod, spec},
};

/// The interface of another plugin, with addresses from outside of every pool.
fn chained(number: u8) -> EndpointSpec {
    EndpointSpec {
        ifname: format!("veth{number:04}"),
        addresses: ["192.168.7.9", "fd77::9"].into_iter().map(|it| it.parse().unwrap()).collect(),
        datapath_configuration: chained_datapath(),
        ..spec(number)
    }
}

/// A world with that interface, which the other plugin has brought up.
fn world(spec: &EndpointSpec) -> World {
    let mut world = World::new();
    world.apply("pods", [pod(1, "web")]);
    let (ifindex, name) = (spec.ifindex, spec.ifname.clone());
    world.kernel.tamper(|state| {
        let mut link = state.rows.links.remove(&ifindex).unwrap_or_default();
        (link.ifindex, link.name, link.up, link.mac) = (ifindex, name, true, spec.node_mac);
        state.plug(link);
    });
    world
}

fn touches_interface(op: &KernelOp) -> bool {
    matches!(op, KernelOp::LinkUp { .. } | KernelOp::PutRoute { .. } | KernelOp::DeleteRoute { .. })
}

#[test]
fn it_is_programmed_without_a_route_or_an_address_of_ours() {
    let spec = chained(1);
    let world = world(&spec);
    let view = world.create(spec.clone()).unwrap();
    world.advance(Duration::from_secs(600));
    let state = world.kernel.state();
    let row = state.rows.config[&spec.ifindex];
    assert_ne!(row.flags & config_flags::CHAINED, 0);
    assert!(state.rows.endpoints[&view.id].chained);
    assert!(state.rows.routes.is_empty(), "{:?}", state.rows.routes);
    for address in spec.addresses.iter() {
        assert_eq!(state.rows.lxc[&address].endpoint, view.id.0);
        assert_eq!(state.rows.ipcache[&address.into()].identity, view.identity);
    }
    assert!(!world.kernel.writes().iter().any(touches_interface));
    assert!(world.get(view.id).lost.is_none());
    world.audit();
}

#[test]
fn a_restart_writes_nothing_and_keeps_it_chained() {
    let spec = chained(1);
    let mut world = world(&spec);
    world.create(spec).unwrap();
    world.advance(Duration::from_secs(1));
    let (writes, log) = (world.kernel.writes().len(), world.disk.log().len());
    world.restart();
    assert!(world.all_ready());
    world.advance(Duration::from_secs(600));
    assert_eq!(&world.kernel.writes()[writes..], []);
    assert_eq!(&world.disk.log()[log..], []);
    assert!(world.get(EndpointId(1)).spec.is_chained());
    world.audit();
}

#[test]
fn without_its_state_file_it_is_rebuilt_as_what_it_was() {
    let spec = chained(1);
    let mut world = world(&spec);
    world.create(spec.clone()).unwrap();
    world.advance(Duration::from_secs(1));
    world.crash();
    world.disk.tamper(|files| files.apply(&FsOp::Remove("1".into())).unwrap());
    world.boot();
    world.advance(Duration::from_secs(60));
    assert_eq!(world.report().count(RestoreOutcome::Rebuilt), 1);
    let view = world.get(EndpointId(1));
    assert!(view.spec.is_chained());
    assert_eq!(view.spec.addresses, spec.addresses);
    assert!(!world.kernel.writes().iter().any(touches_interface));
    world.audit();
}

#[test]
fn its_interface_that_is_down_is_told_and_not_touched() {
    let spec = chained(1);
    let world = world(&spec);
    let id = world.create(spec.clone()).unwrap().id;
    world.kernel.tamper(|state| state.rows.links.get_mut(&spec.ifindex).unwrap().up = false);
    world.advance(Duration::from_secs(60));
    let why = world.get(id).lost.clone().unwrap().why;
    assert!(why.contains("another plugin is down"), "{why}");
    assert!(!world.kernel.writes().iter().any(touches_interface));
    world.kernel.tamper(|state| state.rows.links.get_mut(&spec.ifindex).unwrap().up = true);
    world.advance(Duration::from_secs(60));
    assert_eq!(world.get(id).lost, None);
}

#[test]
fn with_it_go_its_rows_and_its_addresses_and_nobody_gets_those_before() {
    let spec = chained(1);
    let world = world(&spec);
    let id = world.create(spec.clone()).unwrap().id;
    let held = |world: &World| {
        let leases = world.facts().leases;
        spec.addresses.iter().filter(|own| leases.iter().any(|(it, _)| it == own)).count()
    };
    assert_eq!(held(&world), 2);
    let taken = EndpointSpec { addresses: spec.addresses, ..chained(2) };
    world.create(taken).unwrap_err();
    assert_eq!(world.delete(EndpointReference::Id(id)), Some(0));
    assert_eq!(held(&world), 0);
    let state = world.kernel.state();
    assert!(state.rows.links.contains_key(&spec.ifindex), "the other plugin removes it");
    assert!(state.rows.config.is_empty() && state.rows.attachments.is_empty());
    world.audit();
}
