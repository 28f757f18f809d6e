//! Computes the desired routes to other nodes' pods, and why a prefix gets none.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use ipnet::IpNet;

use super::{Neighbour, RoutesSettings, RoutingMode};
use crate::{
    model::{Addresses, NodeKey},
    ports::{HOST_DEVICE, Hop, Link, OVERLAY, Routing},
};

/// Routes to other nodes that should be, and why some cannot.
#[derive(Debug, Default)]
pub(super) struct DesiredRoutes {
    pub(super) routes: BTreeMap<IpNet, Hop>,
    /// Prefixes of nodes that have none, and why.
    pub(super) troubles: BTreeMap<IpNet, String>,
    /// Those of them that are left out because it was asked for.
    pub(super) skipped: BTreeMap<IpNet, String>,
}

impl DesiredRoutes {
    /// What is desired where these nodes are known and that is there.
    pub(super) fn of(
        settings: &RoutesSettings,
        nodes: &BTreeMap<NodeKey, Neighbour>,
        routing: &Routing,
    ) -> Self {
        let mut desired = Self::default();
        let ends = nodes.values().flat_map(|node| node.addresses.iter()).collect();
        for (prefix, claimants) in claims(settings, nodes) {
            let present = routing.routes.get(&prefix);
            let mut hops: Vec<_> = claimants
                .iter()
                .map(|(key, node)| (*key, hop(settings, node, &prefix, routing)))
                .collect();
            // Of several it stays that one's which has it.
            let has = |hop: &Result<Hop, Why>| hop.as_ref().ok() == present && present.is_some();
            hops.sort_by_key(|(_, hop)| !has(hop));
            if let [first, others @ ..] = &*hops
                && !others.is_empty()
            {
                let names: Vec<_> = others.iter().map(|(key, _)| key.to_string()).collect();
                let why = format!(
                    "nodes {} and {} all have it: it stays the first one's; give them prefixes of \
                     their own",
                    first.0,
                    names.join(" and ")
                );
                desired.troubles.insert(prefix, why);
            }
            if let Some(why) = intruder(settings, &ends, &prefix) {
                let key = hops[0].0;
                desired.troubles.insert(prefix, format!("node {key} has it, but {why}"));
                continue;
            }
            match hops.swap_remove(0) {
                (_, Ok(hop)) => drop(desired.routes.insert(prefix, hop)),
                (_, Err(Why::NotYet)) => {}
                (key, Err(Why::NoNeighbour(why))) if settings.skips() => {
                    desired.skipped.insert(prefix, format!("node {key}: {why}"));
                }
                (key, Err(Why::NoNeighbour(why) | Why::NoAddress(why))) => {
                    desired.troubles.insert(prefix, format!("node {key}: {why}"));
                }
            }
        }
        desired
    }
}

impl RoutesSettings {
    fn skips(&self) -> bool {
        matches!(self.mode, RoutingMode::Native { skip_unreachable: true, .. })
    }
}

/// Which nodes name each prefix of pods, in families that are switched on.
fn claims<'a>(
    settings: &RoutesSettings,
    nodes: &'a BTreeMap<NodeKey, Neighbour>,
) -> BTreeMap<IpNet, Vec<(&'a NodeKey, &'a Neighbour)>> {
    let mut claims = BTreeMap::<IpNet, Vec<_>>::new();
    if let RoutingMode::Native { direct: false, .. } = settings.mode {
        return claims;
    }
    for (key, node) in nodes {
        let on = |prefix: &IpNet| match prefix {
            IpNet::V4(_) => settings.families.ipv4,
            IpNet::V6(_) => settings.families.ipv6,
        };
        for prefix in node.prefixes().into_iter().filter(on) {
            claims.entry(prefix).or_default().push((key, node));
        }
    }
    claims
}

/// What a prefix of another node's pods must not hold, if it does. `ends` are the other nodes'
/// addresses in order: there are thousands, of each prefix to be asked.
fn intruder(settings: &RoutesSettings, ends: &BTreeSet<IpAddr>, prefix: &IpNet) -> Option<String> {
    let own = settings.pools.ipv4.map(IpNet::from).into_iter();
    let own = own.chain(settings.pools.ipv6.map(IpNet::from));
    let own = own.chain(settings.own_prefixes.iter().copied());
    let overlap = |other: &IpNet| prefix.contains(other) || other.contains(prefix);
    if let Some(own) = own.map(|own| own.trunc()).find(overlap) {
        return Some(format!("this node's pods have {own}: give it another one"));
    }
    let mut own = settings.addresses.iter();
    let own = own.find(|address| prefix.contains(address));
    let address =
        own.or_else(|| ends.range(prefix.network()..=prefix.broadcast()).next().copied())?;
    Some(format!("a node itself is at {address}: give its pods another one"))
}

enum Why {
    /// Its device is not there yet.
    NotYet,
    NoNeighbour(String),
    NoAddress(String),
}

fn hop(
    settings: &RoutesSettings,
    node: &Neighbour,
    prefix: &IpNet,
    routing: &Routing,
) -> Result<Hop, Why> {
    let ipv4 = prefix.addr().is_ipv4();
    match settings.mode {
        RoutingMode::Native { .. } => {
            let gateway = of_family(node.addresses, ipv4);
            let gateway = gateway.ok_or_else(|| {
                let family = if ipv4 { "IPv4" } else { "IPv6" };
                Why::NoAddress(format!("it has no {family} address to route that to"))
            })?;
            match neighbours_at(&routing.links, gateway) {
                Some(ifindex) => Ok(Hop::Direct { gateway, ifindex }),
                None => Err(Why::NoNeighbour(format!(
                    "{gateway} is on no network of this node: have a router between them route the \
                     prefix, and say --direct-routing-skip-unreachable, or --routing-mode=tunnel"
                ))),
            }
        }
        RoutingMode::Tunnel { .. } => {
            let device = routing.devices.get(OVERLAY).filter(|device| device.ours && device.fit);
            let ifindex = device.ok_or(Why::NotYet)?.ifindex;
            let node = settings.tunnel_end(node.addresses).ok_or_else(|| {
                Why::NoAddress("it has no address of the family in which tunnels go".to_owned())
            })?;
            let source = of_family(settings.router, ipv4).filter(|it| is_ours(routing, *it));
            Ok(Hop::Tunnel { node, ifindex, source, mtu: settings.route_mtu() })
        }
    }
}

fn of_family(addresses: Addresses, ipv4: bool) -> Option<IpAddr> {
    addresses.iter().find(|address| address.is_ipv4() == ipv4)
}

/// Whether the router's address is where it belongs.
fn is_ours(routing: &Routing, router: IpAddr) -> bool {
    let device = routing.devices.get(HOST_DEVICE).filter(|device| device.ours);
    let link = device.and_then(|device| routing.links.get(&device.ifindex));
    link.is_some_and(|link| link.up && link.addresses.contains(&router.into()))
}

/// The interface at whose network an address is.
fn neighbours_at(links: &BTreeMap<u32, Link>, address: IpAddr) -> Option<u32> {
    let is_near = |net: &IpNet| net.prefix_len() < net.max_prefix_len() && net.contains(&address);
    let near = links.values().filter(|link| link.up && link.addresses.iter().any(is_near));
    let ours = BTreeSet::from([OVERLAY, HOST_DEVICE]);
    let longest = |link: &&Link| {
        let lengths = link.addresses.iter().filter(|net| is_near(net)).map(IpNet::prefix_len);
        lengths.max()
    };
    // Of several equal ones the first, as long as it is there.
    let near = near.filter(|link| !ours.contains(&*link.name)).collect::<Vec<_>>();
    near.into_iter().rev().max_by_key(longest).map(|link| link.ifindex)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Families;

    #[test]
    fn the_index_of_addresses_finds_what_asking_each_of_them_does() {
        let settings = RoutesSettings {
            mode: RoutingMode::Tunnel { port: 8472 },
            families: Families::DUAL,
            pools: Default::default(),
            own_prefixes: BTreeSet::new(),
            router: Addresses::default(),
            addresses: Addresses::default(),
            mtu: 1500,
            records: 0,
            alone: false,
        };
        let ends = ["10.0.0.0", "10.1.0.0", "10.1.0.255", "10.3.255.255", "fd00::1", "fd00:1::"];
        let ends: BTreeSet<IpAddr> = ends.iter().map(|it| it.parse().unwrap()).collect();
        let prefixes = [
            "10.0.0.0/24",
            "10.0.1.0/24",
            "10.1.0.0/32",
            "10.1.0.128/25",
            "10.1.1.0/24",
            "10.2.0.0/16",
            "10.3.0.0/16",
            "10.4.0.0/16",
            "0.0.0.0/0",
            "fd00::/112",
            "fd00::2/127",
            "fd00:1::/64",
            "fd00:2::/64",
            "::/0",
        ];
        for prefix in prefixes.map(|it| it.parse::<IpNet>().unwrap()) {
            let found = intruder(&settings, &ends, &prefix);
            let asked = ends.iter().find(|address| prefix.contains(*address));
            let words =
                |address| format!("a node itself is at {address}: give its pods another one");
            assert_eq!(found, asked.map(words), "{prefix}");
        }
    }
}
