use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::IDENTITIES;
use crate::{
    model::{IdentityId, Labels},
    ports::{Change, Pair},
};

/// The identities that the store knows, by either.
#[derive(Debug, Default)]
pub(super) struct Directory {
    labels: BTreeMap<IdentityId, Arc<Labels>>,
    /// Of several numbers that stand for one set the lowest counts.
    numbers: BTreeMap<Arc<Labels>, BTreeSet<IdentityId>>,
}

/// What became of an identity: its labels, or none if it is gone.
pub(super) type Renewed = (IdentityId, Option<Arc<Labels>>);

impl Directory {
    pub(super) fn labels(&self, id: IdentityId) -> Option<&Arc<Labels>> {
        self.labels.get(&id)
    }

    pub(super) fn of(&self, labels: &Labels) -> Option<IdentityId> {
        self.numbers.get(labels)?.first().copied()
    }

    pub(super) fn len(&self) -> usize {
        self.labels.len()
    }

    /// Takes in a change of the store; what cannot be read is named and left out.
    pub(super) fn take(&mut self, change: Change) -> Option<Renewed> {
        let renewed = match change {
            Change::Put(Pair { key, value }) => match read(&key, &value) {
                Ok((id, labels)) => (id, Some(Arc::new(labels))),
                Err(cause) => {
                    tracing::warn!(key, cause, "kvstore key is no identity; remove it");
                    // What it stood for before is not what it says now.
                    (number(&key)?, None)
                }
            },
            Change::Delete(key) => (number(&key)?, None),
        };
        self.insert(renewed.0, renewed.1.clone());
        Some(renewed)
    }

    /// Notes what a number stands for.
    pub(super) fn insert(&mut self, id: IdentityId, labels: Option<Arc<Labels>>) {
        if let Some(before) = self.labels.remove(&id)
            && let Some(all) = self.numbers.get_mut(&before)
        {
            all.remove(&id);
            if all.is_empty() {
                self.numbers.remove(&before);
            }
        }
        if let Some(labels) = labels {
            self.numbers.entry(Arc::clone(&labels)).or_default().insert(id);
            self.labels.insert(id, labels);
        }
    }
}

/// The number that a key names.
fn number(key: &str) -> Option<IdentityId> {
    key.strip_prefix(IDENTITIES)?.parse().ok().map(IdentityId)
}

fn read(key: &str, value: &[u8]) -> Result<(IdentityId, Labels), String> {
    let id = number(key).ok_or("it ends in no number")?;
    let text = std::str::from_utf8(value).map_err(|error| error.to_string())?;
    let labels = Labels::parse(text.split_terminator(';')).map_err(|error| error.to_string())?;
    if labels.is_empty() {
        return Err("it has no labels".to_owned());
    }
    Ok((id, labels))
}
