//! Other nodes with prefixes of pods, and the routes that lead there.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use ipnet::IpNet;
use serde_json::json;
use volvox_actors_simulated::{
    model::IdentityId,
    node::routes::RoutingMode,
    ports::{HOST_DEVICE, HookState, Hop, OVERLAY},
    testing::KernelState,
};

use super::{node::Node, store::node_key, uplink::uplinks};

/// Other nodes with prefixes that there may be.
pub(super) const PEERS: u8 = 3;
/// Prefixes that they may have, of which two nodes may claim the same.
pub(super) const PREFIXES: u8 = 4;
/// How agents reach them.
const NATIVE: RoutingMode = RoutingMode::Native { direct: true, skip_unreachable: false };
const TUNNEL: RoutingMode = RoutingMode::Tunnel { port: 8472 };
/// The largest packet that fits into a tunnel over devices that take 1500 bytes.
const TUNNEL_MTU: u32 = 1450;

fn key(number: u8) -> String {
    node_key(&format!("peer-{number}"))
}

/// Where a node is, by family.
fn gateways(number: u8) -> [IpAddr; 2] {
    [format!("192.0.2.1{number}"), format!("2001:db8::1{number}")]
        .map(|text| text.parse().expect("an address"))
}

/// Prefixes of pods, by family.
fn nets(prefix: u8) -> [IpNet; 2] {
    [format!("10.2{prefix}.0.0/24"), format!("fd2{prefix}::/64")]
        .map(|text| text.parse().expect("a prefix"))
}

/// Other nodes as the oracle knows them.
#[derive(Default)]
pub(super) struct Peers {
    /// The prefix of each.
    prefixes: BTreeMap<u8, u8>,
    /// Prefixes of nodes that stayed since the node was last at rest: there were routes to them.
    steady: BTreeSet<IpNet>,
}

impl Peers {
    /// A node has that prefix from now on, or is gone.
    fn becomes(&mut self, number: u8, prefix: Option<u8>) {
        let before = match prefix {
            Some(prefix) => self.prefixes.insert(number, prefix),
            None => self.prefixes.remove(&number),
        };
        if let Some(before) = before.filter(|before| Some(*before) != prefix) {
            let former = nets(before);
            self.steady.retain(|net| !former.contains(net));
        }
    }

    /// Something happened to what routes lead through: they may go until they are made again.
    pub(super) fn may_lose_routes(&mut self) {
        self.steady.clear();
    }

    /// At rest: what has a route keeps it as long as its node stays.
    pub(super) fn rest(&mut self, state: &KernelState) {
        self.steady = state.routing.routes.keys().copied().collect();
    }

    /// A route that went, although its node stays.
    pub(super) fn wrong(&self, state: &KernelState) -> Option<String> {
        let lost = self.steady.iter().find(|net| !state.routing.routes.contains_key(net));
        lost.map(|net| format!("the route to {net} went, and its node stays"))
    }

    /// Nodes that claim each prefix.
    fn claims(&self) -> BTreeMap<IpNet, Vec<IpAddr>> {
        let mut claims = BTreeMap::<_, Vec<_>>::new();
        for (&number, &prefix) in &self.prefixes {
            for (net, gateway) in nets(prefix).into_iter().zip(gateways(number)) {
                claims.entry(net).or_default().push(gateway);
            }
        }
        claims
    }
}

impl Node {
    /// Another node says that its pods have that prefix, or it leaves.
    pub(super) fn peer(&mut self, number: u8, prefix: Option<u8>) {
        let Some(store) = &self.world.kvstore else { return };
        self.oracle.borrow_mut().peers.becomes(number, prefix);
        let Some(prefix) = prefix else { return store.delete(&key(number)) };
        let addresses = gateways(number).map(|ip| json!({ "Type": "InternalIP", "IP": ip }));
        let [ipv4, ipv6] = nets(prefix).map(|net| net.addr());
        let said = json!({
            "Name": format!("peer-{number}"), "Cluster": "default", "IPAddresses": addresses,
            "IPv4AllocCIDR": { "IP": ipv4, "Mask": "////AA==" },
            "IPv6AllocCIDR": { "IP": ipv6, "Mask": "//////////8AAAAAAAAAAA==" },
        });
        store.put(&key(number), &said.to_string());
    }

    /// From now on agents reach other nodes by routes to neighbours, or in tunnels.
    pub(super) fn native(&mut self, expected: bool) {
        let mode = if expected { NATIVE } else { TUNNEL };
        if self.world.settings.routing != mode {
            self.kill();
            self.world.settings.routing = mode;
            self.oracle.borrow_mut().peers.may_lose_routes();
            self.boot(true);
        }
    }

    /// Nodes with prefixes leave.
    pub(super) fn part(&mut self) {
        (1..=PEERS).for_each(|number| self.peer(number, None));
    }

    /// At rest: routes of ours lead to the nodes that there are, and nowhere else.
    pub(super) fn misrouted(&self) -> Option<String> {
        let oracle = self.oracle.borrow();
        for number in 1..=PEERS {
            let known = oracle.peers.prefixes.contains_key(&number);
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
        let claims = oracle.peers.claims();
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
            |gateway: &IpAddr| (1..=PEERS).find(|it| self::gateways(*it).contains(gateway));
        let all: Vec<Hop> = gateways
            .iter()
            .filter_map(|gateway| Some((*gateway, self::gateways(number(gateway)?)[0])))
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
    let near = uplinks(state)
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
