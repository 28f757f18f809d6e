//! An index of the cluster's identities: labels by number and numbers by labels.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::model::{ClusterId, IdentityId, Labels};

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
    entries: BTreeMap<IdentityId, Entry>,
    /// Of several numbers that stand for one set the lowest counts.
    numbers: BTreeMap<Arc<Labels>, BTreeSet<IdentityId>>,
}

impl Directory {
    pub(crate) fn labels(&self, id: IdentityId) -> Option<&Arc<Labels>> {
        self.entries.get(&id)?.labels()
    }

    /// A number of these labels that this cluster handed out.
    pub(crate) fn of(&self, labels: &Labels, cluster: ClusterId) -> Option<IdentityId> {
        self.numbers.get(labels)?.iter().copied().find(|id| cluster.hands_out(*id))
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether the number stands for nothing.
    pub(crate) fn is_free(&self, id: IdentityId) -> bool {
        !self.entries.contains_key(&id)
    }

    pub(crate) fn is_marked(&self, id: IdentityId) -> bool {
        matches!(self.entries.get(&id), Some(Entry::Marked(_)))
    }

    /// Whether the number stands for these labels.
    pub(crate) fn stands(&self, id: IdentityId, labels: &Labels) -> bool {
        self.labels(id).is_some_and(|found| **found == *labels)
    }

    /// Whether the number stands for anything but these labels.
    pub(crate) fn is_other(&self, id: IdentityId, labels: &Labels) -> bool {
        let entry = self.entries.get(&id);
        entry.is_some_and(|entry| entry.labels().is_none_or(|found| **found != *labels))
    }

    /// Notes what a number stands for.
    pub(crate) fn insert(&mut self, id: IdentityId, entry: Entry) {
        let before = self.entries.remove(&id);
        if let Some(before) = before.as_ref().and_then(Entry::labels)
            && let Some(all) = self.numbers.get_mut(before)
        {
            all.remove(&id);
            if all.is_empty() {
                self.numbers.remove(before);
            }
        }
        if let Some(labels) = entry.labels() {
            self.numbers.entry(Arc::clone(labels)).or_default().insert(id);
        }
        if entry != Entry::Gone {
            self.entries.insert(id, entry);
        }
    }
}
