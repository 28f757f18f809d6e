//! Chooses devices among the node's interfaces, and the row of each: addresses and masquerading.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    net::IpAddr,
    str::FromStr,
};

use ipnet::IpNet;
use serde::{Serialize, Serializer};

use crate::{
    model::{Addresses, Families},
    ports::{DeviceKind, DeviceLinks, DeviceRow, HookState, Link, device_flags},
};

/// Interfaces of ours have names that begin so.
const OWN: &str = "cilium_";
/// Programs read Ethernet headers.
const NO_ETHERNET: &str = "it has no Ethernet address";

/// A name of an interface, or with a `+` behind it how names begin.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DevicePattern {
    name: String,
    begins: bool,
}

impl Serialize for DevicePattern {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A text that names no interface.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} names no interface: 1 to 15 bytes without / and space are expected, or fewer and a +"
)]
pub struct DevicePatternError(String);

impl DevicePattern {
    fn matches(&self, name: &str) -> bool {
        if self.begins { name.starts_with(&self.name) } else { name == self.name }
    }
}

impl FromStr for DevicePattern {
    type Err = DevicePatternError;

    fn from_str(text: &str) -> Result<Self, DevicePatternError> {
        let (name, begins) = text.strip_suffix('+').map_or((text, false), |name| (name, true));
        let is_name = (begins || !name.is_empty())
            && name.len() < 16
            && !name.contains(|c: char| c == '/' || c.is_whitespace());
        match is_name {
            true => Ok(Self { name: name.to_owned(), begins }),
            false => Err(DevicePatternError(text.to_owned())),
        }
    }
}

impl fmt::Display for DevicePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.name, if self.begins { "+" } else { "" })
    }
}

/// How the node's devices are to be used.
#[derive(Clone, Debug)]
pub struct DevicesSettings {
    /// Which interfaces; none: those that default routes lead to or that have the node's address.
    pub patterns: Vec<DevicePattern>,
    /// Interfaces whose names begin so are pods'.
    pub pod_interfaces: String,
    /// The addresses by which other nodes reach this one.
    pub node_addresses: BTreeSet<IpAddr>,
    /// Families that are switched on.
    pub families: Families,
    /// Families whose pods go out as the node.
    pub masquerade: Families,
    /// Where they go to as themselves, besides the cluster.
    pub unmasqueraded: BTreeSet<IpNet>,
    /// The same of this node's pods, as far as they change while it runs.
    pub own_prefixes: BTreeSet<IpNet>,
    /// Which records the programs emit: bits of [`device_flags`].
    pub records: u16,
}

/// What is to be, of the interfaces that there are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct DesiredDevices {
    pub(super) rows: BTreeMap<u32, DeviceRow>,
    pub(super) links: BTreeMap<u32, DeviceLinks>,
    pub(super) missing: Vec<String>,
    pub(super) passed_over: BTreeMap<String, String>,
}

impl DevicesSettings {
    /// Chooses the devices.
    pub(super) fn choose(&self, links: &BTreeMap<u32, Link>) -> DesiredDevices {
        let mut desired = DesiredDevices::default();
        for link in links.values().filter(|link| self.leads_out(link)) {
            if link.mac.is_zero() {
                desired.passed_over.insert(link.name.clone(), NO_ETHERNET.to_owned());
                continue;
            }
            let (name, kind) = (link.name.clone(), DeviceKind::Native);
            desired.rows.insert(link.ifindex, self.row(link));
            let links = DeviceLinks { name, kind, state: HookState::Link };
            desired.links.insert(link.ifindex, links);
        }
        let absent = |pattern: &&DevicePattern| {
            !pattern.begins && !links.values().any(|link| pattern.matches(&link.name))
        };
        desired.missing = self.patterns.iter().filter(absent).map(ToString::to_string).collect();
        desired
    }

    fn leads_out(&self, link: &Link) -> bool {
        let name = link.name.as_str();
        if name == "lo" || name.starts_with(&self.pod_interfaces) || name.starts_with(OWN) {
            return false;
        }
        match self.patterns.as_slice() {
            [] => link.up && (link.default_route || self.has_node_address(link)),
            patterns => patterns.iter().any(|pattern| pattern.matches(name)),
        }
    }

    fn has_node_address(&self, link: &Link) -> bool {
        link.addresses.iter().any(|address| self.node_addresses.contains(&address.addr()))
    }

    fn row(&self, link: &Link) -> DeviceRow {
        let (ipv4, ipv6) = (self.stand_in(link, true), self.stand_in(link, false));
        let addresses = Addresses {
            ipv4: ipv4.and_then(|it| if let IpAddr::V4(it) = it { Some(it) } else { None }),
            ipv6: ipv6.and_then(|it| if let IpAddr::V6(it) = it { Some(it) } else { None }),
        };
        let masquerades = [
            (self.masquerade.ipv4 && addresses.ipv4.is_some(), device_flags::MASQUERADE_IPV4),
            (self.masquerade.ipv6 && addresses.ipv6.is_some(), device_flags::MASQUERADE_IPV6),
        ];
        let masquerades = masquerades.iter().filter(|(on, _)| *on);
        let flags = masquerades.fold(self.records, |flags, (_, flag)| flags | flag);
        DeviceRow { addresses, mac: link.mac, flags }
    }

    /// The address that stands for others: the node's own, or the first one that is of use
    /// elsewhere.
    fn stand_in(&self, link: &Link, ipv4: bool) -> Option<IpAddr> {
        let on = if ipv4 { self.families.ipv4 } else { self.families.ipv6 };
        let all = link.addresses.iter().map(IpNet::addr);
        let mut usable = all.filter(|&it| on && it.is_ipv4() == ipv4 && is_global(it));
        let first = usable.clone().next();
        usable.find(|address| self.node_addresses.contains(address)).or(first)
    }
}

/// Whether an address means the same beyond its link.
fn is_global(address: IpAddr) -> bool {
    !address.is_loopback()
        && !address.is_multicast()
        && match address {
            IpAddr::V4(address) => !address.is_link_local(),
            IpAddr::V6(address) => !address.is_unicast_link_local(),
        }
}
