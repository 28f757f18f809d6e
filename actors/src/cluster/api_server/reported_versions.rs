//! Remembers by hash which objects a source told, so that only changes go on.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    model::ApiObject,
    ports::{Object, ObjectChange, ObjectKey},
};

/// An object as it is now, or that it is gone.
pub(super) type Delta = (ObjectKey, Option<ApiObject>);

/// What a source told of its objects: a list tells every object again, and so may a watch. Of most changes
/// of an object, those of its status, nothing is left at the edge, and they are no news.
#[derive(Clone, Debug, Default)]
pub(super) struct ReportedVersions(BTreeMap<ObjectKey, u64>);

impl ReportedVersions {
    /// How many objects there are.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// What a whole list says that was not told.
    pub(super) fn list(&self, objects: Vec<Object>) -> Vec<Delta> {
        let listed = objects.iter().map(|object| object.key.clone()).collect();
        self.gone(&listed).into_iter().chain(self.news(objects)).collect()
    }

    /// What some of a list says that was not told.
    pub(super) fn news(&self, objects: Vec<Object>) -> Vec<Delta> {
        let new = objects.into_iter().filter(|object| self.is_news(object));
        new.map(|object| (object.key, Some(object.value))).collect()
    }

    /// What was told and is not in a whole list.
    pub(super) fn gone(&self, listed: &BTreeSet<ObjectKey>) -> Vec<Delta> {
        let gone = self.0.keys().filter(|key| !listed.contains(*key));
        gone.map(|key| (key.clone(), None)).collect()
    }

    /// What changes say that was not told, and the version that they reach.
    pub(super) fn changes(&self, changes: Vec<ObjectChange>) -> (Vec<Delta>, Option<String>) {
        let (mut deltas, mut version) = (BTreeMap::new(), None);
        for change in changes {
            match change {
                ObjectChange::Applied(object) => {
                    drop(deltas.insert(object.key, Some(object.value)))
                }
                ObjectChange::Deleted(key) => drop(deltas.insert(key, None)),
                ObjectChange::Reached(reached) => version = Some(reached),
            }
        }
        let news = |(key, value): &Delta| match value {
            Some(value) => self.0.get(key) != Some(&value.mark()),
            None => self.0.contains_key(key),
        };
        (deltas.into_iter().filter(news).collect(), version)
    }

    /// These were told.
    pub(super) fn note(&mut self, marks: Vec<(ObjectKey, Option<u64>)>) {
        for (key, mark) in marks {
            match mark {
                Some(mark) => drop(self.0.insert(key, mark)),
                None => drop(self.0.remove(&key)),
            }
        }
    }

    fn is_news(&self, object: &Object) -> bool {
        self.0.get(&object.key) != Some(&object.value.mark())
    }
}

/// What is noted of deltas once they are told.
pub(super) fn marks(deltas: &[Delta]) -> Vec<(ObjectKey, Option<u64>)> {
    deltas.iter().map(|(key, value)| (key.clone(), value.as_ref().map(ApiObject::mark))).collect()
}
