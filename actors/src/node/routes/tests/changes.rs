//! The mode changes: what the other one left goes once the new one stands.

use std::time::Duration;

use super::fixture::{
    DIRECT, TUNNEL, announce, direct, fixture, routes, routing, said, steps, view,
};
use crate::{
    ports::{Hop, OVERLAY, RoutingOp},
    testing::KvLink,
};

const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn from_tunnels_to_neighbours_and_back() {
    let (mut world, store) = fixture(TUNNEL);
    announce(&store, 2, &said(2));
    world.boot();
    let before = steps(&world).len();
    world.settings.routing = DIRECT;
    world.restart();
    world.settle();
    let after = routing(&world);
    assert_eq!(routes(&world), direct(2));
    assert!(after.tunnel == 0 && after.devices.is_empty(), "{after:?}");
    let steps = steps(&world);
    let kinds: Vec<_> = steps[before..].iter().map(kind).collect();
    assert_eq!(kinds, ["route", "route", "tunnel", "remove", "remove"]);
    world.settings.routing = TUNNEL;
    world.restart();
    world.settle();
    let all = routes(&world);
    assert!(all.iter().all(|(_, hop)| matches!(hop, Hop::Tunnel { .. })), "{all:?}");
    assert_eq!(all.len(), 2);
}

fn kind(op: &RoutingOp) -> &'static str {
    match op {
        RoutingOp::Route { replaces: true, .. } => "route",
        RoutingOp::Tunnel { ifindex: 0, .. } => "tunnel",
        RoutingOp::Remove { .. } => "remove",
        _ => "else",
    }
}

/// Tunnels serve on: nobody knows yet what is to take their place.
#[test]
fn nothing_goes_before_the_store_has_named_all_nodes() {
    let (mut world, store) = fixture(TUNNEL);
    announce(&store, 2, &said(2));
    world.boot();
    let before = routing(&world);
    world.crash();
    store.set_link(KvLink::Down);
    world.settings.routing = DIRECT;
    world.boot();
    world.advance(MINUTE * 10);
    assert_eq!(routing(&world), before);
    store.set_link(KvLink::Up);
    world.advance(MINUTE);
    assert_eq!(routes(&world), direct(2));
    assert_eq!(routing(&world).tunnel, 0);
}

#[test]
fn another_port_is_another_device() {
    let (mut world, store) = fixture(TUNNEL);
    announce(&store, 2, &said(2));
    world.boot();
    let before = routing(&world);
    world.settings.routing = crate::node::routes::RoutingMode::Tunnel { port: 4789 };
    world.restart();
    world.settle();
    let after = routing(&world);
    assert_eq!(after.devices[OVERLAY].port, 4789);
    assert_eq!((after.tunnel, after.routes.len()), (after.devices[OVERLAY].ifindex, 2));
    assert_eq!(after.devices["cilium_host"], before.devices["cilium_host"]);
    assert!(view(&world).troubles.is_empty());
}

#[test]
fn a_node_that_is_in_no_cluster_any_more_has_no_ways_to_others() {
    let (mut world, store) = fixture(TUNNEL);
    announce(&store, 2, &said(2));
    world.boot();
    world.kvstore = None;
    world.settings.routing = DIRECT;
    world.restart();
    world.advance(MINUTE);
    let after = routing(&world);
    assert!(after.routes.is_empty() && after.devices.is_empty(), "{after:?}");
    assert_eq!(after.tunnel, 0);
}
