//! Of which families an endpoint leaves the cluster with its own address. Plugins say it, Cilium's as well, by
//! properties that the record preserves; the kernel's programs know it by the endpoint's rows.

use std::net::IpAddr;

use serde_json::{Map, Value};

use crate::{
    model::Families,
    ports::{KernelSnapshot, lxc_flags},
};

/// Cilium's names of the two properties.
const IPV4: &str = "property-skip-masquerade-v4";
const IPV6: &str = "property-skip-masquerade-v6";

/// What properties say of it.
pub(super) fn unmasqueraded(properties: &Value) -> Families {
    let is_set = |name| properties.get(name) == Some(&Value::Bool(true));
    Families { ipv4: is_set(IPV4), ipv6: is_set(IPV6) }
}

/// The properties that say it.
pub fn unmasqueraded_properties(families: Families) -> Value {
    let all = [(IPV4, families.ipv4), (IPV6, families.ipv6)];
    let set = all.into_iter().filter(|(_, is_set)| *is_set);
    let set: Map<_, _> = set.map(|(name, _)| (name.to_owned(), Value::Bool(true))).collect();
    if set.is_empty() { Value::Null } else { Value::Object(set) }
}

/// The flag of a row of this address.
pub(super) fn flag(families: Families, address: IpAddr) -> u32 {
    match address {
        IpAddr::V4(_) if families.ipv4 => lxc_flags::SKIP_MASQUERADE_V4,
        IpAddr::V6(_) if families.ipv6 => lxc_flags::SKIP_MASQUERADE_V6,
        _ => 0,
    }
}

/// What the kernel's rows of these addresses say of it.
pub fn unmasqueraded_in_kernel(
    kernel: &KernelSnapshot,
    addresses: impl Iterator<Item = IpAddr>,
) -> Families {
    let rows = addresses.filter_map(|address| kernel.lxc.get(&address));
    let flags = rows.fold(0, |flags, row| flags | row.flags);
    let is_set = |flag| flags & flag != 0;
    Families {
        ipv4: is_set(lxc_flags::SKIP_MASQUERADE_V4),
        ipv6: is_set(lxc_flags::SKIP_MASQUERADE_V6),
    }
}
