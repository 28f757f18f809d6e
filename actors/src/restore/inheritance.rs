//! What a node begins with: what an earlier run left in the kernel and on disk.

use std::collections::BTreeMap;

use ipnet::IpNet;

use crate::{
    model::{IdentityId, IdentityScope},
    ports::KernelSnapshot,
    state_directory::IdentityTable,
};

/// What the run before left, as far as supervisors need it from their first moment.
#[derive(Debug, Default)]
pub struct Inheritance {
    /// Numbers of identities.
    pub identities: IdentityTable,
    /// Which writing of them that is.
    pub identities_generation: u32,
    /// What the kernel holds.
    pub kernel: KernelSnapshot,
}

impl Inheritance {
    /// The prefixes that rules of an earlier run mapped, with their numbers.
    pub(crate) fn prefixes(&self) -> BTreeMap<IpNet, IdentityId> {
        let rows = self.kernel.ipcache.iter().map(|(&prefix, row)| (prefix, row.identity));
        rows.filter(|(_, id)| id.scope() == IdentityScope::LocalCidr).collect()
    }
}
