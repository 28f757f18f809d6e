//! The desired rows of the host and its desired ipcache entries, derived from interfaces and
//! settings. All of it is pure; the actor does the writing.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use ipnet::IpNet;

use crate::{
    model::{Addresses, Families, IdentityId, NodeFacts},
    policy::ipcache::{IpcacheEntry, IpcacheSource},
    ports::{KernelOp, Link, LxcRow, lxc_flags},
};

/// What the node's actor has to know.
#[derive(Clone, Debug)]
pub struct NodeSettings {
    /// Families that are switched on.
    pub families: Families,
    /// The address that pods route through.
    pub router: Addresses,
    /// Interfaces whose names begin so are pods', not the host's.
    pub pod_interfaces: String,
    /// What the kernel says of the node at start.
    pub facts: NodeFacts,
}

impl NodeSettings {
    /// The host's own addresses among those of all interfaces: whatever can be reached from
    /// elsewhere, but not what belongs to a pod, nor the address that pods route through.
    pub(super) fn host_addresses(&self, links: &BTreeMap<u32, Link>) -> BTreeSet<IpAddr> {
        links
            .values()
            .filter(|link| !self.is_pods(link))
            .flat_map(|link| &link.addresses)
            .map(IpNet::addr)
            .filter(|&address| self.is_reachable(address))
            .filter(|&address| self.router.iter().all(|router| router != address))
            .collect()
    }

    /// Whether an interface is a pod's.
    pub(super) fn is_pods(&self, link: &Link) -> bool {
        link.name.starts_with(&self.pod_interfaces)
    }

    /// Rows of local addresses that are the host's.
    pub(super) fn rows(&self, addresses: &BTreeSet<IpAddr>) -> BTreeMap<IpAddr, LxcRow> {
        let row = LxcRow { flags: lxc_flags::HOST, ..LxcRow::default() };
        addresses.iter().map(|&address| (address, row)).collect()
    }

    /// What the node says of prefixes: its own addresses are the host, all the rest is the world.
    pub(super) fn entries(&self, addresses: &BTreeSet<IpAddr>) -> BTreeMap<IpNet, IpcacheEntry> {
        let own = addresses.iter().copied().chain(self.router.iter());
        let own = own.map(|address| (IpNet::from(address), IdentityId::HOST));
        let world = [("0.0.0.0/0", true), ("::/0", false)].into_iter().filter_map(|(all, ipv4)| {
            let all: IpNet = all.parse().ok()?;
            Some((all, self.families.world(ipv4)?))
        });
        let entry = |identity| IpcacheEntry::of(identity, IpcacheSource::Node);
        own.chain(world).map(|(prefix, identity)| (prefix, entry(identity))).collect()
    }

    fn is_reachable(&self, address: IpAddr) -> bool {
        let elsewhere = !(address.is_loopback() || address.is_multicast());
        elsewhere
            && match address {
                IpAddr::V4(_) => self.families.ipv4,
                IpAddr::V6(address) => self.families.ipv6 && !address.is_unicast_link_local(),
            }
    }
}

/// Steps from the rows that there are, as far as that is known, to the rows that are desired.
pub(super) fn steps(
    present: &BTreeMap<IpAddr, Option<LxcRow>>,
    desired: &BTreeMap<IpAddr, LxcRow>,
) -> Vec<KernelOp> {
    let puts = desired
        .iter()
        .filter(|(address, row)| present.get(address) != Some(&Some(**row)))
        .map(|(&address, &row)| KernelOp::PutLxc { address, row });
    let deletes = present
        .keys()
        .filter(|address| !desired.contains_key(address))
        .map(|&address| KernelOp::DeleteLxc { address, endpoint: 0 });
    puts.chain(deletes).collect()
}
