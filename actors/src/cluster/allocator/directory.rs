//! An index of the cluster's identities: labels by number and numbers by labels.

use std::{collections::BTreeSet, sync::Arc};

use crate::{
    model::{ClusterId, IdentityId, Labels},
    policy::identity::Numbered,
};

/// What the cluster says of a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// It stands for nothing.
    Gone,
    /// It stands for these labels.
    Labels(Arc<Labels>),
    /// It stands for these labels, and goes soon if nobody says that it uses it.
    Marked(Arc<Labels>),
    /// It is taken by what cannot be read.
    Unreadable,
}

impl Entry {
    /// The labels that it stands for.
    pub fn labels(&self) -> Option<&Arc<Labels>> {
        match self {
            Self::Labels(labels) | Self::Marked(labels) => Some(labels),
            Self::Gone | Self::Unreadable => None,
        }
    }
}

/// The identities that the cluster knows, by either.
#[derive(Debug, Default)]
pub(crate) struct Directory {
    numbered: Numbered,
    /// Those of them that go soon if nobody says that it uses them.
    marked: BTreeSet<IdentityId>,
    /// Further numbers, taken by what cannot be read.
    unreadable: BTreeSet<IdentityId>,
}

impl Directory {
    /// A number of these labels that this cluster handed out: of several the lowest.
    pub(crate) fn of(&self, labels: &Labels, cluster: ClusterId) -> Option<IdentityId> {
        self.numbered.all_of(labels).filter(|id| cluster.hands_out(*id)).min()
    }

    pub(crate) fn len(&self) -> usize {
        self.numbered.len() + self.unreadable.len()
    }

    /// Whether the number stands for nothing.
    pub(crate) fn is_free(&self, id: IdentityId) -> bool {
        self.numbered.labels(id).is_none() && !self.unreadable.contains(&id)
    }

    pub(crate) fn is_marked(&self, id: IdentityId) -> bool {
        self.marked.contains(&id)
    }

    /// Whether the number stands for these labels.
    pub(crate) fn stands(&self, id: IdentityId, labels: &Labels) -> bool {
        self.numbered.stands(id, labels)
    }

    /// Whether the number stands for anything but these labels.
    pub(crate) fn is_other(&self, id: IdentityId, labels: &Labels) -> bool {
        !self.is_free(id) && !self.stands(id, labels)
    }

    /// Notes what a number stands for.
    pub(crate) fn insert(&mut self, id: IdentityId, entry: Entry) {
        self.numbered.remove(id);
        self.marked.remove(&id);
        self.unreadable.remove(&id);
        match entry {
            Entry::Gone => {}
            Entry::Labels(labels) => self.numbered.insert(id, labels),
            Entry::Marked(labels) => {
                self.numbered.insert(id, labels);
                self.marked.insert(id);
            }
            Entry::Unreadable => drop(self.unreadable.insert(id)),
        }
    }
}
