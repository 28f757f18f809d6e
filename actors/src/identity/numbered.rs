use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    sync::Arc,
};

use super::reserved::{self, OPERATOR_NAMESPACE};
use crate::model::{IdentityId, Labels};

/// Sets of labels and their numbers, to be found by either. Nodes of a cluster that did not see each
/// other may have given a set a number each.
#[derive(Clone, Debug, Default)]
pub(super) struct Numbered {
    labels: BTreeMap<IdentityId, Arc<Labels>>,
    by_labels: BTreeMap<Arc<Labels>, IdentityId>,
    /// Further numbers of sets that have several.
    more: BTreeMap<Arc<Labels>, BTreeSet<IdentityId>>,
}

impl Numbered {
    /// Identities that need no table: the reserved and well-known ones of a cluster of that name.
    pub(super) fn fixed(cluster: &str) -> Self {
        let well_known = reserved::well_known(cluster, OPERATOR_NAMESPACE);
        let mut fixed = Self::default();
        for (id, labels) in reserved::identities().chain(well_known) {
            fixed.insert(id, Arc::new(labels));
        }
        fixed
    }

    /// A number of a set of labels.
    pub(super) fn of(&self, labels: &Labels) -> Option<IdentityId> {
        self.by_labels.get(labels).copied()
    }

    /// All numbers of a set of labels.
    pub(super) fn all_of(&self, labels: &Labels) -> impl Iterator<Item = IdentityId> {
        self.of(labels).into_iter().chain(self.more.get(labels).into_iter().flatten().copied())
    }

    /// The labels behind a number.
    pub(super) fn labels(&self, id: IdentityId) -> Option<&Arc<Labels>> {
        self.labels.get(&id)
    }

    /// Each, by number.
    pub(super) fn iter(&self) -> impl Iterator<Item = (IdentityId, &Arc<Labels>)> {
        self.labels.iter().map(|(&id, labels)| (id, labels))
    }

    /// Gives a set a number that nobody has.
    pub(super) fn insert(&mut self, id: IdentityId, labels: Arc<Labels>) {
        self.labels.insert(id, Arc::clone(&labels));
        match self.by_labels.entry(labels) {
            Entry::Vacant(place) => {
                place.insert(id);
            }
            Entry::Occupied(place) => {
                self.more.entry(Arc::clone(place.key())).or_default().insert(id);
            }
        }
    }

    pub(super) fn remove(&mut self, id: IdentityId) {
        let Some(labels) = self.labels.remove(&id) else { return };
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
            Some(next) => drop(self.by_labels.insert(labels, next)),
            None if first => drop(self.by_labels.remove(&labels)),
            None => {}
        }
    }
}
