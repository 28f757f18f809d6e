use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;

use crate::{
    ipcache::{IpcacheEntry, Source},
    model::{IdentityId, Labels, Scope},
    ports::KernelSnapshot,
    state::IdentityTable,
};

/// Whether only nodes have that identity: themselves, their health endpoint and their ingress.
fn is_of_nodes(id: IdentityId) -> bool {
    id.scope() == Scope::RemoteNode
        || [IdentityId::REMOTE_NODE, IdentityId::HEALTH, IdentityId::INGRESS].contains(&id)
}

/// What an earlier life mapped for other nodes.
pub(crate) fn inherited(kernel: &KernelSnapshot) -> BTreeMap<IpNet, IdentityId> {
    let rows = kernel.ipcache.iter().map(|(&prefix, row)| (prefix, row.identity));
    let is_own = |prefix: &IpNet| kernel.lxc.contains_key(&prefix.addr());
    rows.filter(|(prefix, id)| is_of_nodes(*id) && !is_own(prefix)).collect()
}

/// The same as the ipcache is told it.
pub(crate) fn inherited_entries(kernel: &KernelSnapshot) -> BTreeMap<IpNet, IpcacheEntry> {
    let entry = |identity| IpcacheEntry { identity, source: Source::RemoteNode };
    inherited(kernel).into_iter().map(|(prefix, id)| (prefix, entry(id))).collect()
}

/// The identities of their labels that addresses have, as far as the table says what they are.
pub(crate) fn inherited_identities(
    kernel: &KernelSnapshot,
    table: &IdentityTable,
) -> BTreeMap<IdentityId, Labels> {
    let used: BTreeSet<_> = inherited(kernel).into_values().collect();
    let theirs = table
        .cluster
        .iter()
        .filter(|numbered| numbered.id.scope() == Scope::RemoteNode && used.contains(&numbered.id));
    theirs.map(|numbered| (numbered.id, numbered.labels.clone())).collect()
}
