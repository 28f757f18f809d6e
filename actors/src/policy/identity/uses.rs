//! Reference counts of identities, and the order in which unused ones may be forgotten.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::IdentityId;

/// How often each number is used, and since when the others are not.
#[derive(Clone, Debug, Default)]
pub(super) struct Uses {
    references: BTreeMap<IdentityId, u32>,
    unused: BTreeSet<(u64, IdentityId)>,
    unused_since: BTreeMap<IdentityId, u64>,
    clock: u64,
    /// Numbers that addresses of other nodes have: one of their references each.
    adopted: BTreeSet<IdentityId>,
    /// Numbers that restored endpoints had, until each of them has said which it has: one of their
    /// references each.
    withheld: BTreeSet<IdentityId>,
    /// Numbers that this node's endpoints began or ceased to use, since that was last asked.
    turned: BTreeSet<IdentityId>,
}

/// The numbers that must not go to another set of labels.
#[derive(Clone, Copy)]
pub(super) struct InUse<'a> {
    pub(super) uses: &'a Uses,
    /// Numbers that somebody is about to use.
    pub(super) spared: &'a BTreeSet<IdentityId>,
}

impl<'a> InUse<'a> {
    pub(super) fn has(self, id: IdentityId) -> bool {
        self.uses.of(id) > 0 || self.spared.contains(&id)
    }

    /// Numbers that are known and in no use, longest unused first.
    pub(super) fn unused(self) -> impl Iterator<Item = IdentityId> + 'a {
        self.uses.unused().filter(move |id| !self.spared.contains(id))
    }
}

impl Uses {
    /// Numbers that nobody uses yet, longest unused first.
    pub(super) fn all_unused(ids: impl IntoIterator<Item = IdentityId>) -> Self {
        let mut uses = Self::default();
        ids.into_iter().for_each(|id| uses.retire(id));
        uses
    }

    pub(super) fn of(&self, id: IdentityId) -> u32 {
        self.references.get(&id).copied().unwrap_or(0)
    }

    /// How many endpoints of this node use it.
    pub(super) fn local(&self, id: IdentityId) -> u32 {
        let others = [&self.adopted, &self.withheld].map(|ids| u32::from(ids.contains(&id)));
        self.of(id) - others.iter().sum::<u32>()
    }

    /// All that endpoints of this node use.
    pub(super) fn all_local(&self) -> BTreeSet<IdentityId> {
        self.references.keys().copied().filter(|&id| self.local(id) > 0).collect()
    }

    pub(super) fn take(&mut self, id: IdentityId) {
        if self.local(id) == 0 {
            self.turned.insert(id);
        }
        self.refer(id);
    }

    /// Addresses of other nodes have it; one reference for all of them.
    pub(super) fn adopt(&mut self, id: IdentityId) {
        if !self.adopted.contains(&id) {
            self.refer(id);
            self.adopted.insert(id);
        }
    }

    /// They do not have it any more. Whether that was the last reference.
    pub(super) fn abandon(&mut self, id: IdentityId) -> bool {
        self.adopted.remove(&id) && self.let_go(id) && self.of(id) == 0
    }

    /// Restored endpoints had it.
    pub(super) fn withhold(&mut self, id: IdentityId) {
        if !self.withheld.contains(&id) {
            self.refer(id);
            self.withheld.insert(id);
        }
    }

    /// Every restored endpoint has said which number it has. Those that nobody has.
    pub(super) fn release_withheld(&mut self) -> Vec<IdentityId> {
        let withheld = std::mem::take(&mut self.withheld);
        withheld.into_iter().filter(|&id| self.let_go(id) && self.of(id) == 0).collect()
    }

    /// Numbers that endpoints began or ceased to use since the last time.
    pub(super) fn turned(&mut self) -> BTreeSet<IdentityId> {
        std::mem::take(&mut self.turned)
    }

    fn refer(&mut self, id: IdentityId) {
        *self.references.entry(id).or_default() += 1;
        if let Some(since) = self.unused_since.remove(&id) {
            self.unused.remove(&(since, id));
        }
    }

    /// Gives one reference back; false if there was none.
    pub(super) fn give_back(&mut self, id: IdentityId) -> bool {
        if self.local(id) == 0 || !self.let_go(id) {
            return false;
        }
        if self.local(id) == 0 {
            self.turned.insert(id);
        }
        true
    }

    fn let_go(&mut self, id: IdentityId) -> bool {
        let Some(count) = self.references.get_mut(&id) else { return false };
        *count -= 1;
        if *count == 0 {
            self.references.remove(&id);
            self.retire(id);
        }
        true
    }

    /// Numbers that are known and not used, longest unused first.
    pub(super) fn unused(&self) -> impl Iterator<Item = IdentityId> {
        self.unused.iter().map(|&(_, id)| id)
    }

    /// Takes note of a number that is known and not used.
    pub(super) fn retire(&mut self, id: IdentityId) {
        if self.of(id) == 0 && !self.unused_since.contains_key(&id) {
            self.clock += 1;
            self.unused_since.insert(id, self.clock);
            self.unused.insert((self.clock, id));
        }
    }

    /// Forgets the unused numbers that are not known any more.
    pub(super) fn forget_unknown(&mut self, is_known: impl Fn(IdentityId) -> bool) {
        self.unused.retain(|&(_, id)| is_known(id));
        self.unused_since.retain(|&id, _| is_known(id));
    }
}
