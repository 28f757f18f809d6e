//! An index of label sets and their numbers, searched both ways and cheap to copy.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use rpds::{HashTrieMap, RedBlackTreeMap};

use super::reserved::{self, OPERATOR_NAMESPACE};
use crate::model::{IdentityId, Labels};

/// Sets of labels and their numbers, to be found by either. Nodes of a cluster that did not see each
/// other may have given a set a number each. A copy shares what did not change.
#[derive(Clone, Debug, Default)]
pub(crate) struct Numbered {
    labels: RedBlackTreeMap<IdentityId, Arc<Labels>>,
    /// Only looked up: its order is nobody's.
    by_labels: HashTrieMap<Arc<Labels>, IdentityId>,
    /// Further numbers of sets that have several.
    more: BTreeMap<Arc<Labels>, BTreeSet<IdentityId>>,
}

impl Numbered {
    /// Identities that need no table: the reserved and well-known ones of a cluster of that name.
    pub(crate) fn fixed(cluster: &str) -> Self {
        let well_known = reserved::well_known(cluster, OPERATOR_NAMESPACE);
        let mut fixed = Self::default();
        for (id, labels) in reserved::identities().chain(well_known) {
            fixed.insert(id, Arc::new(labels));
        }
        fixed
    }

    /// A number of a set of labels.
    pub(crate) fn of(&self, labels: &Labels) -> Option<IdentityId> {
        self.by_labels.get(labels).copied()
    }

    /// All numbers of a set of labels.
    pub(crate) fn all_of(&self, labels: &Labels) -> impl Iterator<Item = IdentityId> {
        self.of(labels).into_iter().chain(self.more.get(labels).into_iter().flatten().copied())
    }

    /// The labels behind a number.
    pub(crate) fn labels(&self, id: IdentityId) -> Option<&Arc<Labels>> {
        self.labels.get(&id)
    }

    /// Whether the number stands for that set.
    pub(crate) fn stands(&self, id: IdentityId, labels: &Labels) -> bool {
        self.labels(id).is_some_and(|found| **found == *labels)
    }

    /// How many numbers there are.
    pub(crate) fn len(&self) -> usize {
        self.labels.size()
    }

    /// The first number from that one on that stands for nothing.
    pub(crate) fn free_from(&self, first: IdentityId) -> Option<IdentityId> {
        let taken = self.labels.range(first..).map(|(id, _)| id.0);
        let run = taken.zip(first.0..).take_while(|(taken, nth)| taken == nth).count();
        first.0.checked_add(u32::try_from(run).ok()?).map(IdentityId)
    }

    /// Each, by number.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (IdentityId, &Arc<Labels>)> {
        self.labels.iter().map(|(&id, labels)| (id, labels))
    }

    /// Gives a set a number that nobody has.
    pub(crate) fn insert(&mut self, id: IdentityId, labels: Arc<Labels>) {
        self.labels.insert_mut(id, Arc::clone(&labels));
        match self.of(&labels) {
            None => self.by_labels.insert_mut(labels, id),
            Some(_) => drop(self.more.entry(labels).or_default().insert(id)),
        }
    }

    pub(crate) fn remove(&mut self, id: IdentityId) {
        let Some(labels) = self.labels.get(&id).cloned() else { return };
        self.labels.remove_mut(&id);
        let first = self.by_labels.get(&labels) == Some(&id);
        let next = match self.more.get_mut(&labels) {
            Some(more) if first => more.pop_first(),
            Some(more) => {
                more.remove(&id);
                None
            }
            None => None,
        };
        if self.more.get(&labels).is_some_and(BTreeSet::is_empty) {
            self.more.remove(&labels);
        }
        match next {
            Some(next) => self.by_labels.insert_mut(labels, next),
            None if first => drop(self.by_labels.remove_mut(&labels)),
            None => {}
        }
    }
}
