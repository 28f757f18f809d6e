//! Tests of tunnel mode: the overlay, its host devices, and the routes that lead into it.

use std::{net::IpAddr, time::Duration};

use super::fixture::{TUNNEL, announce, fixture, leave, net, routes, routing, said, steps, view};
use crate::ports::{DeviceKind, HOST_DEVICE, HOST_PEER, Hop, KernelOp, OVERLAY, RoutingOp};

const MINUTE: Duration = Duration::from_secs(60);

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[test]
fn a_node_alone_makes_no_device() {
    let (mut world, _) = fixture(TUNNEL);
    world.boot();
    world.advance(MINUTE * 3);
    assert_eq!(steps(&world), []);
}

#[test]
fn with_another_node_there_are_devices_and_routes_in_tunnels() {
    let (mut world, store) = fixture(TUNNEL);
    announce(&store, 2, &said(2));
    world.boot();
    let made = routing(&world);
    let overlay = &made.devices[OVERLAY];
    assert_eq!((overlay.port, overlay.prepared, made.tunnel), (8472, true, overlay.ifindex));
    let programs = world.kernel.state().devices.links;
    assert_eq!(programs[&overlay.ifindex].kind, DeviceKind::Overlay);
    for name in [OVERLAY, HOST_DEVICE, HOST_PEER] {
        let link = &made.links[&made.devices[name].ifindex];
        assert!(link.up && link.mtu == 1500, "{link:?}");
    }
    let host = &made.links[&made.devices[HOST_DEVICE].ifindex];
    assert_eq!(host.addresses, [net("10.1.0.254/32"), net("fd01::fe/128")]);
    let (node, ifindex, mtu) = (ip("192.0.2.2"), overlay.ifindex, 1450);
    let hop = |source| Hop::Tunnel { node, ifindex, source: Some(ip(source)), mtu };
    let expected = [(net("10.2.0.0/24"), hop("10.1.0.254")), (net("fd02::/64"), hop("fd01::fe"))];
    assert_eq!(routes(&world), expected);
    // Programs hear of the overlay before anything leads there.
    let steps = steps(&world);
    let at = |is: fn(&RoutingOp) -> bool| steps.iter().position(is).unwrap();
    let tunnel = at(|op| matches!(op, RoutingOp::Tunnel { .. }));
    assert!(tunnel < at(|op| matches!(op, RoutingOp::Route { .. })), "{steps:?}");
    // The router is no address of the host.
    let lxc = world.kernel.state().rows.lxc;
    assert!(!lxc.contains_key(&ip("10.1.0.254")), "{lxc:?}");
    assert!(view(&world).troubles.is_empty());
}

#[test]
fn a_restart_writes_nothing_and_the_last_node_s_going_leaves_the_devices() {
    let (mut world, store) = fixture(TUNNEL);
    announce(&store, 2, &said(2));
    world.boot();
    let before = world.kernel.writes().len();
    world.restart();
    world.advance(MINUTE * 3);
    let after = world.kernel.writes();
    let ours = |op: &&KernelOp| matches!(op, KernelOp::Routing(_) | KernelOp::LinkUp { .. });
    assert_eq!(after[before..].iter().filter(ours).count(), 0);
    leave(&store, 2);
    world.settle();
    assert!(routes(&world).is_empty());
    assert!(routing(&world).devices.contains_key(OVERLAY));
}

#[test]
fn between_nodes_with_ipv6_alone_tunnels_go_by_it() {
    let (mut world, store) = fixture(TUNNEL);
    world.settings.kvstore.address = ip("2001:db8::1");
    world.settings.kvstore.other_address = None;
    announce(&store, 2, &said(2));
    world.boot();
    let all = routes(&world);
    let is_ipv6 = |hop: &Hop| matches!(hop, Hop::Tunnel { node, mtu: 1430, .. } if *node == ip("2001:db8::2"));
    assert!(all.len() == 2 && all.iter().all(|(_, hop)| is_ipv6(hop)), "{all:?}");
}

#[test]
fn devices_that_somebody_took_down_or_removed_are_back_within_a_minute() {
    let (mut world, store) = fixture(TUNNEL);
    announce(&store, 2, &said(2));
    world.boot();
    let before = routing(&world);
    world.kernel.tamper(|state| {
        let ifindex = state.routing.devices[OVERLAY].ifindex;
        state.rows.links.get_mut(&ifindex).unwrap().up = false;
        state.routing.routes.clear();
    });
    world.advance(MINUTE);
    assert_eq!(routing(&world), before);
    world.kernel.tamper(|state| {
        for name in [OVERLAY, HOST_DEVICE, HOST_PEER] {
            let device = state.routing.devices.remove(name).unwrap();
            state.unplug(device.ifindex);
        }
    });
    world.advance(MINUTE);
    let after = routing(&world);
    assert_eq!(after.routes.len(), 2);
    assert_eq!(after.tunnel, after.devices[OVERLAY].ifindex);
}

#[test]
fn devices_of_somebody_else_are_named_and_left_alone() {
    let (mut world, store) = fixture(TUNNEL);
    announce(&store, 2, &said(2));
    world.kernel.tamper(|state| {
        let name = OVERLAY.to_owned();
        let link = crate::ports::Link { ifindex: 77, name: name.clone(), ..Default::default() };
        state.plug(link);
        let device = crate::ports::RoutingDevice { ifindex: 77, ..Default::default() };
        state.routing.devices.insert(name, device);
    });
    world.boot();
    world.advance(MINUTE * 2);
    assert_eq!(steps(&world), []);
    let why = view(&world).troubles[OVERLAY].clone();
    assert!(why.contains("somebody else made this interface"), "{why}");
}
