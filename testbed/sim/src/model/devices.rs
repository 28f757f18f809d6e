//! Interfaces to other machines: which there may be, and what has to be of them in the kernel.

use std::{collections::BTreeMap, net::IpAddr};

use ipnet::IpNet;
use volvox_actors_simulated::{
    model::Addresses,
    ports::{DeviceRow, Link, LocalRules, device_flags},
    testing::KernelState,
};

/// Interfaces that there may be; the last one is where packets to anybody go.
pub(crate) const DEVICES: u8 = 2;

/// Sets of addresses that each may have.
pub(crate) const SETS: usize = 4;

/// The address by which other nodes reach this one.
const NODE: &str = "192.0.2.1";

/// Those sets, by interface. Packets to none of them are looked at.
const ADDRESSES: [[&[&str]; SETS]; DEVICES as usize] = [
    [
        &["192.0.2.1/24", "2001:db8::1/64"],
        &["198.51.100.7/24", "192.0.2.1/24"],
        &["198.51.100.8/24"],
        &[],
    ],
    [
        &["198.51.100.20/24"],
        &["fe80::2/64", "192.0.2.2/24", "2001:db8::2/64"],
        &["192.0.2.1/24"],
        &[],
    ],
];

/// The rules that look up own addresses, at that priority.
pub(crate) fn rules(priority: u32) -> BTreeMap<bool, LocalRules> {
    let rules = LocalRules { priorities: [priority].into(), others: false };
    [(false, rules.clone()), (true, rules)].into()
}

/// The name of an interface.
pub(crate) fn name(number: u8) -> String {
    format!("eth{number}")
}

/// The addresses of a set.
pub(crate) fn addresses(number: u8, set: u8) -> Vec<IpNet> {
    let all = ADDRESSES[usize::from(number - 1)][usize::from(set) % SETS];
    all.iter().map(|net| net.parse().expect("an address")).collect()
}

/// The interfaces of those that may be, as they are.
pub(crate) fn devices(state: &KernelState) -> impl Iterator<Item = &Link> {
    let names: Vec<String> = (1..=DEVICES).map(name).collect();
    state.rows.links.values().filter(move |link| names.contains(&link.name))
}

/// What they have that means the same beyond their link.
pub(crate) fn global(link: &Link) -> impl Iterator<Item = IpAddr> {
    let all = link.addresses.iter().map(IpNet::addr);
    all.filter(|it| !matches!(it, IpAddr::V6(it) if it.is_unicast_link_local()))
}

fn is_node(address: &IpAddr) -> bool {
    address.to_string() == NODE
}

/// What programs have to know of an interface; `None` if they have no business there.
pub(crate) fn row(link: &Link) -> Option<DeviceRow> {
    let leads_out = link.default_route || global(link).any(|it| is_node(&it));
    if !link.up || !leads_out {
        return None;
    }
    let node = global(link).find(is_node);
    let addresses: Addresses = node.into_iter().chain(global(link)).collect();
    let mut flags = 0;
    if addresses.ipv4.is_some() {
        flags |= device_flags::MASQUERADE_IPV4;
    }
    if addresses.ipv6.is_some() {
        flags |= device_flags::MASQUERADE_IPV6;
    }
    Some(DeviceRow { addresses, mac: link.mac, flags })
}
