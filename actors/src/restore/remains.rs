//! Finds the numbers and addresses of endpoints that are not restored: they are not free before
//! all that is left of these endpoints is removed.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use super::RestorePlan;
use crate::{
    model::EndpointId,
    ports::{KernelSnapshot, lxc_flags},
    state_directory::ScannedDirectory,
};

/// What disk and kernel hold of endpoints that do not come back: their numbers, with the addresses
/// that nobody else has.
pub(super) fn remains(
    disk: &ScannedDirectory,
    kernel: &KernelSnapshot,
    plan: &RestorePlan,
) -> BTreeMap<EndpointId, BTreeSet<IpAddr>> {
    let mut remains: BTreeMap<EndpointId, BTreeSet<IpAddr>> = BTreeMap::new();
    for record in disk.records.iter().map(|found| &found.record) {
        let ipv4 = record.ipv4.map(IpAddr::V4);
        let addresses = ipv4.into_iter().chain(record.ipv6.map(IpAddr::V6));
        remains.entry(record.id).or_default().extend(addresses);
    }
    for (&id, row) in &kernel.endpoints {
        remains.entry(id).or_default().extend(row.addresses.iter());
    }
    for (&address, row) in kernel.lxc.iter().filter(|(_, row)| row.flags & lxc_flags::HOST == 0) {
        remains.entry(EndpointId(row.endpoint)).or_default().insert(address);
    }
    let rows = kernel.config.values().map(|row| row.endpoint);
    let pins = kernel.attachments.keys().chain(&kernel.policy_pins).chain(&kernel.torn_rows);
    for id in rows.chain(pins.copied()) {
        remains.entry(id).or_default();
    }
    let living: BTreeSet<IpAddr> =
        plan.endpoints().flat_map(|endpoint| endpoint.spec.addresses.iter()).collect();
    remains.retain(|id, _| id.0 != 0 && !plan.candidates.contains_key(id));
    remains.values_mut().for_each(|all| all.retain(|address| !living.contains(address)));
    one_owner_each(&mut remains);
    remains
}

/// An address that several left is kept for one of them.
fn one_owner_each(remains: &mut BTreeMap<EndpointId, BTreeSet<IpAddr>>) {
    let mut seen = BTreeSet::new();
    remains.values_mut().for_each(|all| all.retain(|address| seen.insert(*address)));
}
