//! What tests of routes share: a node with a store, and other nodes that come and go.

use ipnet::IpNet;
use serde_json::{Value, json};

use crate::{
    cluster::kvstore::NODES,
    model::Addresses,
    node::routes::{RoutesMsg, RoutesView, RoutingMode},
    ports::{Hop, KernelOp, Link, Routing, RoutingOp},
    testing::{MemoryKvStore, World},
};

pub(super) const DIRECT: RoutingMode =
    RoutingMode::Native { direct: true, skip_unreachable: false };
pub(super) const TUNNEL: RoutingMode = RoutingMode::Tunnel { port: 8472 };
/// Number of the interface to the nodes' network.
pub(super) const ETH: u32 = 90;

/// A node at 192.0.2.1 and 2001:db8::1 that shares a store and has no agent yet.
pub(super) fn fixture(mode: RoutingMode) -> (World, MemoryKvStore) {
    let mut world = World::off();
    let store = MemoryKvStore::default();
    world.kvstore = Some(store.clone());
    let settings = &mut world.settings;
    settings.routing = mode;
    settings.pools.ipv4 = "10.1.0.0/24".parse().ok();
    settings.pools.ipv6 = "fd01::/64".parse().ok();
    settings.node.router =
        Addresses { ipv4: "10.1.0.254".parse().ok(), ipv6: "fd01::fe".parse().ok() };
    settings.kvstore.other_address = "2001:db8::1".parse().ok();
    let addresses = ["192.0.2.1/24", "2001:db8::1/64"].map(|net| net.parse().unwrap()).to_vec();
    let name = "eth0".to_owned();
    let eth = Link { ifindex: ETH, name, up: true, mtu: 1500, addresses, ..Link::default() };
    world.kernel.tamper(|state| state.plug(eth));
    (world, store)
}

/// What the node of that number says: it is at 192.0.2.N and 2001:db8::N.
pub(super) fn said(number: u8) -> Value {
    json!({
        "Name": name(number),
        "Cluster": "default",
        "IPAddresses": [
            { "Type": "ExternalIP", "IP": format!("203.0.113.{number}") },
            { "Type": "InternalIP", "IP": format!("192.0.2.{number}") },
            { "Type": "InternalIP", "IP": format!("2001:db8::{number}") },
            { "Type": "CiliumInternalIP", "IP": format!("10.{number}.0.254") },
        ],
        "IPv4AllocCIDR": { "IP": format!("10.{number}.0.0"), "Mask": "////AA==" },
        "IPv6AllocCIDR": { "IP": format!("fd0{number}::"), "Mask": "//////////8AAAAAAAAAAA==" },
    })
}

fn name(number: u8) -> String {
    format!("n{number}")
}

pub(super) fn announce(store: &MemoryKvStore, number: u8, said: &Value) {
    store.put(&format!("{NODES}default/{}", name(number)), &said.to_string());
}

pub(super) fn leave(store: &MemoryKvStore, number: u8) {
    store.delete(&format!("{NODES}default/{}", name(number)));
}

pub(super) fn net(text: &str) -> IpNet {
    text.parse().unwrap()
}

/// Routes by neighbours to the node of that number.
pub(super) fn direct(number: u8) -> [(IpNet, Hop); 2] {
    let hop = |gateway: String| Hop::Direct { gateway: gateway.parse().unwrap(), ifindex: ETH };
    [
        (net(&format!("10.{number}.0.0/24")), hop(format!("192.0.2.{number}"))),
        (net(&format!("fd0{number}::/64")), hop(format!("2001:db8::{number}"))),
    ]
}

/// What the kernel has, as a look shows it.
pub(super) fn routing(world: &World) -> Routing {
    world.kernel.with(|state| {
        let foreign = state.routing.foreign.clone();
        let devices = state.routing.devices.clone();
        Routing {
            links: state.rows.links.clone(),
            devices,
            routes: state.routing.routes.clone(),
            odd: foreign,
            rules: state.routing.rules.clone(),
            tunnel: state.routing.tunnel,
            port: state.routing.port,
            records: state.routing.records,
            strict: false,
        }
    })
}

pub(super) fn routes(world: &World) -> Vec<(IpNet, Hop)> {
    routing(world).routes.into_iter().collect()
}

pub(super) fn view(world: &World) -> RoutesView {
    world.ask(&world.node_supervisor().routes, RoutesMsg::Show)
}

/// Steps of ours that were done.
pub(super) fn steps(world: &World) -> Vec<RoutingOp> {
    let ours = |op| if let KernelOp::Routing(op) = op { Some(op) } else { None };
    world.kernel.writes().into_iter().filter_map(ours).collect()
}
