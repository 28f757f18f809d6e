use std::{collections::BTreeMap, sync::Arc};

use super::reserved::{self, OPERATOR_NAMESPACE};
use crate::model::{IdentityId, Labels};

/// Sets of labels and their numbers, to be found by either.
#[derive(Clone, Debug, Default)]
pub(super) struct Numbered {
    labels: BTreeMap<IdentityId, Arc<Labels>>,
    by_labels: BTreeMap<Arc<Labels>, IdentityId>,
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

    /// The number of a set of labels.
    pub(super) fn of(&self, labels: &Labels) -> Option<IdentityId> {
        self.by_labels.get(labels).copied()
    }

    /// The labels behind a number.
    pub(super) fn labels(&self, id: IdentityId) -> Option<&Arc<Labels>> {
        self.labels.get(&id)
    }

    /// Each, by number.
    pub(super) fn iter(&self) -> impl Iterator<Item = (IdentityId, &Arc<Labels>)> {
        self.labels.iter().map(|(&id, labels)| (id, labels))
    }

    /// Adds a set that has no number yet, and a number that nobody has.
    pub(super) fn insert(&mut self, id: IdentityId, labels: Arc<Labels>) {
        self.labels.insert(id, Arc::clone(&labels));
        self.by_labels.insert(labels, id);
    }

    pub(super) fn remove(&mut self, id: IdentityId) {
        if let Some(labels) = self.labels.remove(&id) {
            self.by_labels.remove(&labels);
        }
    }
}
