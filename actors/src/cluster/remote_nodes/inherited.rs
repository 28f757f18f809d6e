//! Which ipcache rows and identities of other nodes an earlier run of the agent left in the
//! kernel.

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;

use super::entry::Seat;
use crate::{
    model::{IdentityId, IdentityScope, Labels},
    policy::ipcache::{IpcacheEntry, IpcacheSource},
    ports::{IpcacheRow, KernelSnapshot},
    state_directory::IdentityTable,
};

/// Whether only nodes have that identity: themselves, their health endpoint and their ingress.
fn is_of_nodes(id: IdentityId) -> bool {
    id.scope() == IdentityScope::RemoteNode
        || [IdentityId::REMOTE_NODE, IdentityId::HEALTH, IdentityId::INGRESS].contains(&id)
}

impl Seat {
    /// What the ipcache is told.
    pub(super) fn entry(self) -> IpcacheEntry {
        let entry = IpcacheEntry::of(self.identity, IpcacheSource::RemoteNode);
        IpcacheEntry { tunnel: self.tunnel, ..entry }
    }
}

/// What an earlier run mapped for other nodes.
pub(crate) fn inherited(kernel: &KernelSnapshot) -> BTreeMap<IpNet, Seat> {
    let seat = |row: &IpcacheRow| Seat { identity: row.identity, tunnel: row.tunnel.into() };
    let rows = kernel.ipcache.iter().map(|(&prefix, row)| (prefix, seat(row)));
    let is_own = |prefix: &IpNet| kernel.lxc.contains_key(&prefix.addr());
    rows.filter(|(prefix, seat)| is_of_nodes(seat.identity) && !is_own(prefix)).collect()
}

/// The same as the ipcache is told it.
pub(crate) fn inherited_entries(kernel: &KernelSnapshot) -> Vec<(IpNet, IpcacheEntry)> {
    inherited(kernel).into_iter().map(|(prefix, seat)| (prefix, seat.entry())).collect()
}

/// The identities of their labels that addresses have, as far as the table says what they are.
pub(crate) fn inherited_identities(
    kernel: &KernelSnapshot,
    table: &IdentityTable,
) -> BTreeMap<IdentityId, Labels> {
    let used: BTreeSet<_> = inherited(kernel).into_values().map(|seat| seat.identity).collect();
    let theirs = table.cluster.iter().filter(|numbered| {
        numbered.id.scope() == IdentityScope::RemoteNode && used.contains(&numbered.id)
    });
    theirs.map(|numbered| (numbered.id, numbered.labels.clone())).collect()
}
