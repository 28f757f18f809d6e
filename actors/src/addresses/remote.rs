use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use ipnet::IpNet;

use crate::model::{IdentityId, Labels};

/// Addresses of other nodes' endpoints: what the cluster says, what is in force, and what lies
/// between.
#[derive(Debug, Default)]
pub(super) struct Remote {
    wanted: BTreeMap<IpNet, IdentityId>,
    /// What the ipcache was told, now or by an earlier life.
    mapped: BTreeMap<IpNet, IdentityId>,
    /// What it was told to take, or to give up, and has not confirmed: in force, perhaps.
    attempted: BTreeSet<(IpNet, IdentityId)>,
    /// How many addresses each identity has through these two.
    users: BTreeMap<IdentityId, usize>,
    /// Identities that every policy knows.
    held: BTreeSet<IdentityId>,
    /// Those of them that no address has.
    idle: BTreeSet<IdentityId>,
    labels: BTreeMap<IdentityId, Arc<Labels>>,
    /// Prefixes to be looked at.
    due: BTreeSet<IpNet>,
    /// Prefixes to be looked at later: nobody knows their identity yet, it stands for something
    /// else here, or the ipcache has not confirmed what it was told of them.
    stalled: BTreeSet<IpNet>,
    listed: bool,
    /// Policies can learn of identities.
    ready: bool,
}

/// The next thing to be done. An identity is known to every policy before an address has it, and
/// forgotten after the last one lost it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Work {
    Adopt(BTreeMap<IdentityId, Arc<Labels>>),
    Map(BTreeMap<IpNet, IdentityId>),
    Unmap(Vec<IpNet>),
    Release(Vec<IdentityId>),
}

impl Remote {
    /// What an earlier life mapped, and the identities among it that policies know already.
    pub(super) fn inherited(
        mapped: BTreeMap<IpNet, IdentityId>,
        held: BTreeSet<IdentityId>,
    ) -> Self {
        let mut users = BTreeMap::new();
        mapped.values().for_each(|&id| *users.entry(id).or_default() += 1);
        let idle = held.iter().copied().filter(|id| !users.contains_key(id)).collect();
        Self { mapped, users, held, idle, ..Self::default() }
    }

    /// What the cluster says of a prefix now.
    pub(super) fn want(&mut self, prefix: IpNet, identity: Option<IdentityId>) {
        match identity {
            Some(id) => self.wanted.insert(prefix, id),
            None => self.wanted.remove(&prefix),
        };
        self.stalled.remove(&prefix);
        self.due.insert(prefix);
    }

    /// All that the cluster has was said: what it does not name goes.
    pub(super) fn listed(&mut self) {
        if !std::mem::replace(&mut self.listed, true) {
            let unnamed = self.mapped.keys().filter(|prefix| !self.wanted.contains_key(*prefix));
            self.due.extend(unnamed);
        }
    }

    /// What the cluster says of an identity now.
    pub(super) fn renew(&mut self, id: IdentityId, labels: Option<Arc<Labels>>) {
        match labels {
            Some(labels) => self.labels.insert(id, labels),
            None => self.labels.remove(&id),
        };
    }

    /// Policies can learn of identities from now on.
    pub(super) fn policies_ready(&mut self) {
        self.ready = true;
        self.resume();
    }

    /// What could not go on is looked at again.
    pub(super) fn resume(&mut self) {
        self.due.append(&mut self.stalled);
    }

    pub(super) fn has_stalled(&self) -> bool {
        !self.stalled.is_empty()
    }

    /// The next thing to be done.
    pub(super) fn next(&mut self) -> Option<Work> {
        let (mut adopt, mut map, mut unmap) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        let mut due = std::mem::take(&mut self.due);
        // Until it is done.
        due.retain(|&prefix| {
            match self.wanted.get(&prefix) {
                Some(id) if self.is_mapped(&prefix, *id) => return false,
                Some(&id) if id.is_reserved() || self.held.contains(&id) => {
                    map.insert(prefix, id);
                }
                Some(&id) => match self.labels.get(&id) {
                    Some(labels) if self.ready => {
                        adopt.entry(id).or_insert_with(|| Arc::clone(labels));
                    }
                    _ => {
                        self.stalled.insert(prefix);
                        return false;
                    }
                },
                None if self.may_be_mapped(&prefix) => unmap.push(prefix),
                None => return false,
            }
            true
        });
        self.due = due;
        if !adopt.is_empty() {
            return Some(Work::Adopt(adopt));
        }
        if !map.is_empty() {
            return Some(Work::Map(map));
        }
        if !unmap.is_empty() {
            return Some(Work::Unmap(unmap));
        }
        // What an earlier life knew stays until the cluster has said what there is.
        let idle = self.listed && !self.idle.is_empty();
        idle.then(|| Work::Release(self.idle.iter().copied().collect()))
    }

    /// These identities cannot be had for now: their addresses wait.
    pub(super) fn refused(&mut self, ids: &BTreeSet<IdentityId>) {
        let waits = |prefix: &IpNet| self.wanted.get(prefix).is_some_and(|id| ids.contains(id));
        let (stalled, due) = std::mem::take(&mut self.due).into_iter().partition(waits);
        self.due = due;
        self.stalled = &self.stalled | &stalled;
    }

    /// What the ipcache was told of these may or may not be in force: whoever they were is still
    /// somebody, and it is told again later.
    pub(super) fn unconfirmed<'a>(&mut self, prefixes: impl IntoIterator<Item = &'a IpNet>) {
        let due = prefixes.into_iter().filter_map(|prefix| self.due.take(prefix));
        self.stalled.extend(due);
    }

    /// Every policy knows these.
    pub(super) fn learned(&mut self, ids: impl IntoIterator<Item = IdentityId>) {
        for id in ids {
            self.held.insert(id);
            if !self.users.contains_key(&id) {
                self.idle.insert(id);
            }
        }
    }

    fn attempts(&self, prefix: &IpNet) -> impl Iterator<Item = IdentityId> {
        let all = (*prefix, IdentityId(0))..=(*prefix, IdentityId(u32::MAX));
        self.attempted.range(all).map(|&(_, id)| id)
    }

    fn is_mapped(&self, prefix: &IpNet, id: IdentityId) -> bool {
        self.mapped.get(prefix) == Some(&id) && self.attempts(prefix).next().is_none()
    }

    fn may_be_mapped(&self, prefix: &IpNet) -> bool {
        self.mapped.contains_key(prefix) || self.attempts(prefix).next().is_some()
    }

    /// The ipcache is told of these.
    pub(super) fn attempted(&mut self, rows: &BTreeMap<IpNet, IdentityId>) {
        for (&prefix, &id) in rows {
            if self.attempted.insert((prefix, id)) {
                self.enter(id);
            }
        }
    }

    /// The ipcache is told to give these up.
    pub(super) fn unmapping(&mut self, prefixes: &[IpNet]) {
        for &prefix in prefixes {
            if let Some(id) = self.mapped.remove(&prefix)
                && !self.attempted.insert((prefix, id))
            {
                self.leave(Some(id));
            }
        }
    }

    fn enter(&mut self, id: IdentityId) {
        *self.users.entry(id).or_default() += 1;
        self.idle.remove(&id);
    }

    /// What it was told before of that prefix counts no more.
    fn settle(&mut self, prefix: &IpNet) {
        let ids: Vec<IdentityId> = self.attempts(prefix).collect();
        for id in ids {
            self.attempted.remove(&(*prefix, id));
            self.leave(Some(id));
        }
    }

    pub(super) fn mapped(&mut self, rows: BTreeMap<IpNet, IdentityId>) {
        for (prefix, id) in rows {
            // What was attempted is counted already.
            if !self.attempted.remove(&(prefix, id)) {
                self.enter(id);
            }
            let before = self.mapped.insert(prefix, id);
            self.leave(before);
            self.settle(&prefix);
        }
    }

    pub(super) fn unmapped(&mut self, prefixes: &[IpNet]) {
        prefixes.iter().for_each(|prefix| self.settle(prefix));
    }

    fn leave(&mut self, id: Option<IdentityId>) {
        if let Some(id) = id
            && let Some(count) = self.users.get_mut(&id)
        {
            *count -= 1;
            if *count == 0 {
                self.users.remove(&id);
                self.idle.extend(self.held.get(&id));
            }
        }
    }

    pub(super) fn released(&mut self, ids: &[IdentityId]) {
        ids.iter().for_each(|id| {
            self.held.remove(id);
            self.idle.remove(id);
        });
    }

    /// Addresses that the cluster names, those in force, those that wait for their identity, and
    /// whether all were named.
    pub(super) fn counts(&self) -> (usize, usize, usize, bool) {
        (self.wanted.len(), self.mapped.len(), self.stalled.len(), self.listed)
    }
}
