//! Counts the addresses of each identity of other nodes, so that policies forget an identity only
//! after its last address is gone.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::IdentityId;

/// Identities of other nodes: those that every policy knows, and how many addresses have each.
#[derive(Debug, Default)]
pub(super) struct RemoteIdentities {
    all: BTreeMap<IdentityId, Holding>,
    /// Those that are known, and that no address has.
    idle: BTreeSet<IdentityId>,
}

#[derive(Debug, Default)]
struct Holding {
    known: bool,
    /// How many addresses have it, or may have it.
    users: usize,
}

impl RemoteIdentities {
    /// Policies know these from an earlier run, which gave them to addresses: one entry each.
    pub(super) fn inherited(
        known: impl IntoIterator<Item = IdentityId>,
        given: impl IntoIterator<Item = IdentityId>,
    ) -> Self {
        let mut held = Self::default();
        given.into_iter().for_each(|id| held.enter(id));
        known.into_iter().for_each(|id| held.learned(id));
        held
    }

    /// Whether an address may have it.
    pub(super) fn has(&self, id: IdentityId) -> bool {
        id.is_reserved() || self.all.get(&id).is_some_and(|holding| holding.known)
    }

    /// Every policy knows it.
    pub(super) fn learned(&mut self, id: IdentityId) {
        let holding = self.all.entry(id).or_default();
        holding.known = true;
        if holding.users == 0 {
            self.idle.insert(id);
        }
    }

    /// One address more has it, or may.
    pub(super) fn enter(&mut self, id: IdentityId) {
        let holding = self.all.entry(id).or_default();
        holding.users += 1;
        if holding.users == 1 {
            self.idle.remove(&id);
        }
    }

    /// One address less has it.
    pub(super) fn leave(&mut self, id: IdentityId) {
        let holding = self.all.get_mut(&id).filter(|holding| holding.users > 0);
        let Some(holding) = holding else { return };
        holding.users -= 1;
        match *holding {
            Holding { users: 0, known: true } => drop(self.idle.insert(id)),
            Holding { users: 0, known: false } => drop(self.all.remove(&id)),
            Holding { .. } => {}
        }
    }

    /// Those that no address has.
    pub(super) fn idle(&self) -> impl Iterator<Item = IdentityId> {
        self.idle.iter().copied()
    }

    /// Policies may forget it.
    pub(super) fn released(&mut self, id: IdentityId) {
        self.idle.remove(&id);
        if let Some(holding) = self.all.get_mut(&id) {
            holding.known = false;
            if holding.users == 0 {
                self.all.remove(&id);
            }
        }
    }

    #[cfg(test)]
    pub(super) fn users(&self, id: IdentityId) -> usize {
        self.all.get(&id).map_or(0, |holding| holding.users)
    }
}
