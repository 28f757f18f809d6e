//! The row of one address: which identity and node it is to have, which it has, and whether it may
//! get the new one yet.

use super::{
    ends::Via,
    names::{IdentityNamedPorts, RemoteNamedPorts},
    remote_identities::RemoteIdentities,
};
use crate::model::IdentityId;

/// One address. There are many of them.
#[derive(Debug, Default)]
pub(super) struct Row {
    pub(super) desired: Option<IdentityId>,
    /// The node that it is behind then.
    pub(super) desired_via: Via,
    /// What the ipcache was told, now or by an earlier run.
    pub(super) mapped: Option<IdentityId>,
    pub(super) mapped_via: Via,
    /// What it was told to take, or to give up, and has not confirmed: in force, perhaps.
    pub(super) attempted: Box<[IdentityId]>,
    /// Names of ports behind it.
    pub(super) said: Option<IdentityNamedPorts>,
    pub(super) due: bool,
    /// The ipcache is told of it, now or next; until it answers, it is told nothing else.
    pub(super) under_way: bool,
    /// This cluster itself says what is desired.
    pub(super) ours: bool,
}

impl Row {
    pub(super) fn is_mapped(&self, id: IdentityId) -> bool {
        let is_there = self.mapped == Some(id) && self.mapped_via == self.desired_via;
        is_there && self.attempted.is_empty()
    }

    /// Mostly there is none, and there are many rows.
    pub(super) fn attempt(&mut self, id: IdentityId) {
        let mut all = std::mem::take(&mut self.attempted).into_vec();
        all.reserve_exact(1);
        all.push(id);
        self.attempted = all.into_boxed_slice();
    }

    /// The identity that it is to have and may have at once.
    pub(super) fn may_have(
        &self,
        held: &RemoteIdentities,
        names: &RemoteNamedPorts,
    ) -> Option<IdentityId> {
        let id = self.desired.filter(|&id| !self.under_way && !self.is_mapped(id))?;
        let may = held.has(id) && self.said.iter().all(|said| names.knows(said));
        may.then_some(id)
    }

    /// The ipcache is to be told that it has this identity.
    pub(super) fn begin(&mut self, id: IdentityId, held: &mut RemoteIdentities) {
        self.under_way = true;
        if !self.attempted.contains(&id) {
            self.attempt(id);
            held.enter(id);
        }
    }

    pub(super) fn may_be_mapped(&self) -> bool {
        self.mapped.is_some() || !self.attempted.is_empty()
    }
}
