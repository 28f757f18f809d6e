//! The addresses by which other nodes reach this one: those that flags name, those of the life
//! before, or those of the device that the default route leads to.

use std::{
    collections::BTreeSet,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use volvox_actors::{model::Addresses, ports::Link};
use volvox_system::netlink::{DefaultRoute, NetlinkError, Socket};

use crate::config::NodeAddress;

/// What the flags say.
#[derive(Clone, Copy, Debug)]
pub struct Expected {
    /// `--ipv4-node`.
    pub ipv4: NodeAddress<Ipv4Addr>,
    /// `--ipv6-node`.
    pub ipv6: NodeAddress<Ipv6Addr>,
}

/// What the kernel says of the ways from this node, beyond its links.
#[derive(Clone, Debug, Default)]
pub struct Ways {
    /// Default routes, the preferred first.
    pub routes: Vec<DefaultRoute>,
    /// IPv6 addresses that are temporary, deprecated or tentative.
    pub passing: BTreeSet<Ipv6Addr>,
}

impl Ways {
    /// What of a choice the next run is to keep. Where no way leads out yet, it may have been a guess.
    pub fn lasting(&self, own: Addresses, before: Addresses) -> Addresses {
        if self.routes.is_empty() { before } else { own }
    }

    /// Reads them.
    pub fn read() -> Result<Self, NetlinkError> {
        let mut socket = Socket::open()?;
        Ok(Self { routes: socket.default_routes()?, passing: socket.passing_addresses()? })
    }
}

/// A flag names an address that this node does not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "--{flag}={address}: this node has no such address; say auto, or one that it has{}",
    list(.own)
)]
pub struct NodeAddressError {
    flag: &'static str,
    address: IpAddr,
    /// Those of that family that it has.
    own: Vec<IpAddr>,
}

fn list(own: &[IpAddr]) -> String {
    match own {
        [] => " (it has none of that family)".to_owned(),
        _ => format!(": {}", own.iter().map(IpAddr::to_string).collect::<Vec<_>>().join(", ")),
    }
}

/// The node's address of each family. `links` are neither pods' nor an agent's.
pub fn choose(
    expected: Expected,
    before: Addresses,
    links: &[&Link],
    ways: &Ways,
) -> Result<Addresses, NodeAddressError> {
    let ipv4 = [expected.ipv4.given().map(IpAddr::from), before.ipv4.map(IpAddr::from)];
    let ipv6 = [expected.ipv6.given().map(IpAddr::from), before.ipv6.map(IpAddr::from)];
    let ipv4 = of_family("ipv4-node", true, ipv4, links, ways)?;
    let ipv6 = of_family("ipv6-node", false, ipv6, links, ways)?;
    Ok(ipv4.into_iter().chain(ipv6).collect())
}

fn of_family(
    flag: &'static str,
    is_ipv4: bool,
    [given, before]: [Option<IpAddr>; 2],
    links: &[&Link],
    ways: &Ways,
) -> Result<Option<IpAddr>, NodeAddressError> {
    let all = links.iter().flat_map(|link| addresses(link)).filter(is_reachable);
    let own: Vec<IpAddr> = all.filter(|it| it.is_ipv4() == is_ipv4).collect();
    if let Some(address) = given {
        let refusal = NodeAddressError { flag, address, own };
        return refusal.own.contains(&address).then_some(Some(address)).ok_or(refusal);
    }
    if let Some(before) = before.filter(|before| own.contains(before)) {
        return Ok(Some(before));
    }
    let fit = |it: &IpAddr| own.contains(it) && !ways.passing.iter().any(|passing| it == passing);
    let candidates: Vec<IpAddr> = candidates(is_ipv4, links, ways).filter(fit).collect();
    let global = candidates.iter().find(|it| !is_link_local(it));
    Ok(global.or(candidates.first()).copied())
}

/// Addresses of links that are up, those that default routes lead by first; then those of others: a link that
/// is down for a moment is better than none.
fn candidates<'a>(
    is_ipv4: bool,
    links: &'a [&Link],
    ways: &'a Ways,
) -> impl Iterator<Item = IpAddr> + 'a {
    let (up, down): (Vec<&Link>, Vec<&Link>) = links.iter().partition(|link| link.up);
    let of_family = ways.routes.iter().filter(move |route| route.is_ipv4 == is_ipv4);
    let by_routes = of_family.flat_map(move |route| {
        let device = links.iter().find(|link| link.up && link.ifindex == route.ifindex);
        device.into_iter().flat_map(|device| route.source.into_iter().chain(addresses(device)))
    });
    by_routes.chain(up.into_iter().chain(down).flat_map(addresses))
}

fn addresses(link: &Link) -> impl Iterator<Item = IpAddr> {
    link.addresses.iter().map(ipnet::IpNet::addr)
}

/// Whether others could reach it. Of IPv6, one of a link means nothing elsewhere; every link has one.
pub fn is_reachable(address: &IpAddr) -> bool {
    !address.is_loopback() && (address.is_ipv4() || !is_link_local(address))
}

fn is_link_local(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

#[cfg(test)]
mod tests;
