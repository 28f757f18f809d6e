//! The kernel does what the actors say it does, never less than before, and no more.

use std::collections::BTreeSet;

use ipnet::IpNet;

use super::{
    EndpointFacts, Snapshot,
    invariant::{Invariant, Violation, verdict},
};
use crate::{
    model::EndpointId,
    ports::{Attachment, HookState, lxc_flags},
};

pub(super) const PROGRAMS: Invariant =
    Invariant { name: "attached-programs-never-dip", check: programs };

fn programs(snapshot: &Snapshot) -> Result<(), Violation> {
    let is_there = |id: &EndpointId| snapshot.living().any(|endpoint| endpoint.id == *id);
    let lost = snapshot.attached_before.iter().filter(|id| is_there(id) && !attached(snapshot, id));
    verdict(PROGRAMS.name, lost.map(|id| format!("endpoint {id} lost its programs")))
}

pub(super) const READY_IS_PROGRAMMED: Invariant =
    Invariant { name: "ready-means-programmed", check: ready_is_programmed };

fn ready_is_programmed(snapshot: &Snapshot) -> Result<(), Violation> {
    let lacks = |endpoint: &EndpointFacts| {
        let config = snapshot.kernel.config.get(&endpoint.ifindex);
        let id = endpoint.id;
        match config {
            _ if endpoint.programs && !attached(snapshot, &id) => {
                Some(format!("endpoint {id} has no programs"))
            }
            None => Some(format!("endpoint {id} has no configuration")),
            Some(row) if row.endpoint != id || row.identity != endpoint.identity => Some(format!(
                "endpoint {id} with identity {} is configured as {} with {}",
                endpoint.identity, row.endpoint, row.identity
            )),
            Some(_) => None,
        }
    };
    verdict(READY_IS_PROGRAMMED.name, snapshot.ready().filter_map(lacks))
}

pub(super) const READY_IS_ENFORCED: Invariant =
    Invariant { name: "ready-means-enforced", check: ready_is_enforced };

fn ready_is_enforced(snapshot: &Snapshot) -> Result<(), Violation> {
    let differs = |endpoint: &EndpointFacts| {
        let slot = snapshot.kernel.config.get(&endpoint.ifindex)?.policy_slot;
        match snapshot.policies.get(&slot)? {
            None => Some(format!("endpoint {} has no policy in slot {slot}", endpoint.id)),
            Some(rows) if *rows != *endpoint.policy => Some(format!(
                "endpoint {} enforces {} rows that are not the {} wanted",
                endpoint.id,
                rows.len(),
                endpoint.policy.len()
            )),
            Some(_) => None,
        }
    };
    verdict(READY_IS_ENFORCED.name, snapshot.ready().filter_map(differs))
}

pub(super) const READY_IS_MAPPED: Invariant =
    Invariant { name: "ready-means-known-to-others", check: ready_is_mapped };

fn ready_is_mapped(snapshot: &Snapshot) -> Result<(), Violation> {
    let found = snapshot.ready().flat_map(|endpoint| {
        endpoint.addresses.iter().filter_map(|address| {
            let local = snapshot.kernel.lxc.get(&address).map(|row| row.endpoint);
            let identity = snapshot.kernel.ipcache.get(&IpNet::from(address));
            let identity = identity.map(|row| row.identity);
            let is_right = local == Some(endpoint.id.0) && identity == Some(endpoint.identity);
            let id = endpoint.id;
            (!is_right)
                .then(|| format!("{address} of endpoint {id} leads to {local:?} with {identity:?}"))
        })
    });
    verdict(READY_IS_MAPPED.name, found)
}

pub(super) const NOTHING_LEFT_BEHIND: Invariant =
    Invariant { name: "nothing-is-left-behind", check: nothing_left_behind };

fn nothing_left_behind(snapshot: &Snapshot) -> Result<(), Violation> {
    let known = snapshot.endpoints.iter().map(|endpoint| endpoint.id);
    let known: BTreeSet<_> = known.chain(snapshot.changed.iter().copied()).collect();
    let kernel = &snapshot.kernel;
    let local = kernel.lxc.iter().filter(|(_, row)| row.flags & lxc_flags::HOST == 0);
    let local =
        local.map(|(address, row)| (format!("address {address}"), EndpointId(row.endpoint)));
    let config = kernel.config.values();
    let config = config.map(|row| (format!("interface {}", row.ifindex), row.endpoint));
    let records = kernel.endpoints.keys().map(|&id| ("a record".to_owned(), id));
    let programs = kernel.attachments.keys().map(|&id| ("programs".to_owned(), id));
    let pins = kernel.policy_pins.iter().map(|&id| ("a policy pin".to_owned(), id));
    let left = local.chain(config).chain(records).chain(programs).chain(pins);
    let left = left.filter(|(_, id)| !known.contains(id));
    verdict(NOTHING_LEFT_BEHIND.name, left.map(|(what, id)| format!("{what} of endpoint {id}")))
}

/// Whether programs of ours run at both hooks, of whatever generation.
fn attached(snapshot: &Snapshot, id: &EndpointId) -> bool {
    let Attachment { from_container, to_container } =
        snapshot.kernel.attachments.get(id).copied().unwrap_or_default();
    from_container != HookState::Empty && to_container != HookState::Empty
}
