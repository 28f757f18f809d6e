//! Routes to other nodes lead where they should, and tunnels are there where they are used.

use std::{collections::BTreeMap, net::IpAddr};

use ipnet::IpNet;
use volvox_actors_simulated::{
    model::IdentityId,
    ports::{HOST_DEVICE, HookState, Hop, OVERLAY},
    testing::KernelState,
};

use crate::{
    model::{
        devices::devices,
        other_nodes::{self, NODES, gateways},
    },
    world::{node::Node, other_nodes::NATIVE},
};

/// The largest packet that fits into a tunnel over devices that take 1500 bytes.
const TUNNEL_MTU: u32 = 1450;

impl Node {
    /// At rest: routes of ours lead to the nodes that there are, and nowhere else.
    pub(crate) fn routes_lack(&self) -> Option<String> {
        let oracle = self.oracle.borrow();
        for number in 1..=NODES {
            let known = oracle.routes.nodes.has(number);
            let expected = known.then_some(IdentityId::REMOTE_NODE);
            for address in gateways(number) {
                let row = self.mapped(address);
                if row != expected {
                    return Some(format!(
                        "node {address} is {expected:?}, the ipcache has {row:?}"
                    ));
                }
            }
        }
        let claims = oracle.routes.nodes.claims();
        let native = self.world.settings.routing == NATIVE;
        self.world.kernel.with(|state| {
            let odd = state.routing.routes.keys().find(|net| !claims.contains_key(net));
            if let Some(net) = odd {
                return Some(format!("there is a route to {net}, which no node has"));
            }
            match native {
                true => unreached(state, &claims, neighbour).or_else(|| left_over(state)),
                false => unreached(state, &claims, tunnel).or_else(|| misled(state)),
            }
        })
    }
}

/// A prefix whose route is none of those that may be there.
fn unreached(
    state: &KernelState,
    claims: &BTreeMap<IpNet, Vec<IpAddr>>,
    hops: fn(&KernelState, IpNet, IpAddr, IpAddr) -> Vec<Hop>,
) -> Option<String> {
    claims.iter().find_map(|(&net, gateways)| {
        let number =
            |gateway: &IpAddr| (1..=NODES).find(|it| other_nodes::gateways(*it).contains(gateway));
        let all: Vec<Hop> = gateways
            .iter()
            .filter_map(|gateway| Some((*gateway, other_nodes::gateways(number(gateway)?)[0])))
            .flat_map(|(gateway, end)| hops(state, net, gateway, end))
            .collect();
        let found = state.routing.routes.get(&net);
        // Who is no neighbour is not reached; what led there before may be left.
        let fits = found.map_or(all.is_empty(), |hop| all.is_empty() || all.contains(hop));
        if !fits {
            return Some(format!("the route to {net} is {found:?}, none of {all:?}"));
        }
        let (Hop::Direct { ifindex, .. } | Hop::Tunnel { ifindex, .. }) = found?;
        let lost = !state.rows.links.get(ifindex).is_some_and(|link| link.up);
        lost.then(|| format!("the route to {net} leads through a device that is not there"))
    })
}

/// How a neighbour may be reached: at each interface whose network it is in.
fn neighbour(state: &KernelState, _: IpNet, gateway: IpAddr, _: IpAddr) -> Vec<Hop> {
    let near = devices(state)
        .filter(|link| link.up && link.addresses.iter().any(|net| net.contains(&gateway)));
    near.map(|link| Hop::Direct { gateway, ifindex: link.ifindex }).collect()
}

/// How a node is reached in a tunnel.
fn tunnel(state: &KernelState, net: IpNet, _: IpAddr, node: IpAddr) -> Vec<Hop> {
    let Some(overlay) = state.routing.devices.get(OVERLAY) else { return Vec::new() };
    let host = state.routing.devices.get(HOST_DEVICE).map(|device| device.ifindex);
    let host = host.and_then(|ifindex| state.rows.links.get(&ifindex));
    let mut own = host.into_iter().flat_map(|link| &link.addresses).map(IpNet::addr);
    let source = own.find(|address| address.is_ipv4() == net.addr().is_ipv4());
    vec![Hop::Tunnel { node, ifindex: overlay.ifindex, source, mtu: TUNNEL_MTU }]
}

/// What tunnels left on a node without them.
fn left_over(state: &KernelState) -> Option<String> {
    let left = state.rows.links.values().find(|link| link.name.starts_with("cilium_"));
    match left {
        Some(link) => Some(format!("{} is left, and nothing goes in tunnels", link.name)),
        None => (state.routing.tunnel != 0).then(|| "programs are told of a tunnel".to_owned()),
    }
}

/// Programs send into no tunnel, or into that which there is, and see what goes through it.
fn misled(state: &KernelState) -> Option<String> {
    let tunnel = state.routing.tunnel;
    let overlay = state.rows.links.values().find(|link| link.name == OVERLAY);
    let Some(overlay) = overlay else {
        let needed = tunnel != 0 || !state.routing.routes.is_empty();
        return needed.then(|| format!("programs are told of tunnel {tunnel}, which is not there"));
    };
    if overlay.ifindex != tunnel || !overlay.up {
        return Some(format!("programs are told of tunnel {tunnel}, there is {overlay:?}"));
    }
    let links = state.devices.links.get(&overlay.ifindex);
    let attached = links.is_some_and(|links| links.state == HookState::Link);
    (!attached).then(|| format!("what goes through tunnels meets {links:?}"))
}
