use std::collections::BTreeMap;

use ipnet::IpNet;

use crate::{
    ipcache::{IpcacheEntry, Source},
    model::IdentityId,
    ports::KernelSnapshot,
};

/// Whether only nodes have that identity: themselves, their health endpoint and their ingress.
fn is_of_nodes(id: IdentityId) -> bool {
    [IdentityId::REMOTE_NODE, IdentityId::HEALTH, IdentityId::INGRESS].contains(&id)
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
