use std::{collections::BTreeMap, sync::Arc};

use super::reserved::{self, OPERATOR_NAMESPACE};
use crate::model::{IdentityId, Labels};

/// Identities that need no table: reserved and well-known ones.
#[derive(Clone, Debug)]
pub(super) struct FixedIdentities {
    labels: BTreeMap<IdentityId, Arc<Labels>>,
    by_labels: BTreeMap<Arc<Labels>, IdentityId>,
}

impl FixedIdentities {
    /// Those of a cluster of that name.
    pub(super) fn new(cluster: &str) -> Self {
        let well_known = reserved::well_known(cluster, OPERATOR_NAMESPACE);
        let labels: BTreeMap<_, _> = reserved::identities()
            .chain(well_known)
            .map(|(id, labels)| (id, Arc::new(labels)))
            .collect();
        let by_labels = labels.iter().map(|(&id, labels)| (Arc::clone(labels), id)).collect();
        Self { labels, by_labels }
    }

    /// The number of a set of labels, if it is one of these.
    pub(super) fn of(&self, labels: &Labels) -> Option<IdentityId> {
        self.by_labels.get(labels).copied()
    }

    /// The labels of one of these.
    pub(super) fn labels(&self, id: IdentityId) -> Option<&Arc<Labels>> {
        self.labels.get(&id)
    }

    /// Each, by number.
    pub(super) fn iter(&self) -> impl Iterator<Item = (IdentityId, &Arc<Labels>)> {
        self.labels.iter().map(|(&id, labels)| (id, labels))
    }
}
