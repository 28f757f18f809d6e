//! Tables of what other clusters said. Old entries stay until a cluster has listed all it has, or
//! is no longer configured.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::mutants::{Mutant, mutated};

/// What a source says, by key. When it begins anew, what it said stays until it has listed all it
/// has: what it did not name again goes then.
#[derive(Debug)]
pub(crate) struct Reported<K, V> {
    rows: BTreeMap<K, V>,
    /// Keys of which it does not say what can be read. They may have a row from before.
    unreadable: BTreeSet<K>,
    /// Keys that it has not named since it began anew.
    unnamed: BTreeSet<K>,
    generation: u64,
    listed: bool,
}

impl<K, V> Default for Reported<K, V> {
    fn default() -> Self {
        let (unreadable, unnamed) = Default::default();
        Self { rows: BTreeMap::new(), unreadable, unnamed, generation: 0, listed: false }
    }
}

impl<K: Ord + Clone, V> Reported<K, V> {
    /// Something comes of that generation; false if a later one has begun.
    pub(crate) fn heeds(&mut self, generation: u64) -> bool {
        if generation > self.generation {
            self.generation = generation;
            self.unnamed = self.rows.keys().chain(&self.unreadable).cloned().collect();
        }
        generation == self.generation
    }

    pub(crate) fn set(&mut self, key: K, value: Option<V>) {
        self.unnamed.remove(&key);
        self.unreadable.remove(&key);
        match value {
            Some(value) => self.rows.insert(key, value),
            None => self.rows.remove(&key),
        };
    }

    /// It named one, and not what that is: that stays as it was.
    pub(crate) fn keep(&mut self, key: K) {
        self.unnamed.remove(&key);
        self.unreadable.insert(key);
    }

    /// All that the source has was named; what went.
    pub(crate) fn listed(&mut self) -> BTreeSet<K> {
        self.listed = true;
        let gone = std::mem::take(&mut self.unnamed);
        for key in &gone {
            self.rows.remove(key);
            self.unreadable.remove(key);
        }
        gone
    }

    /// Whether it ever named all it had.
    pub(crate) fn is_listed(&self) -> bool {
        self.listed
    }

    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        self.rows.get(key)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.rows.iter()
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &K> {
        self.rows.keys()
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.rows.values()
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }
}

/// What an owner keeps of each other cluster.
#[derive(Debug)]
pub(crate) struct Clusters<T> {
    /// None until it is known which there are.
    configured: Option<BTreeSet<Arc<str>>>,
    known: BTreeMap<Arc<str>, T>,
}

impl<T: Default> Clusters<T> {
    /// Nothing of any; without a mesh there are none.
    pub(crate) fn new(meshed: bool) -> Self {
        Self { configured: (!meshed).then(BTreeSet::new), known: BTreeMap::new() }
    }

    /// These are configured now; what was kept of those that are not.
    pub(crate) fn configure(&mut self, names: BTreeSet<Arc<str>>) -> Vec<(Arc<str>, T)> {
        if mutated(Mutant::ClustersNeverLeft) && self.configured.is_some() {
            return Vec::new();
        }
        let gone: Vec<_> =
            self.known.keys().filter(|name| !names.contains(*name)).cloned().collect();
        self.configured = Some(names);
        let gone = gone.into_iter();
        gone.filter_map(|name| self.known.remove(&name).map(|retained| (name, retained))).collect()
    }

    /// What is kept of a cluster, unless it is not configured.
    pub(crate) fn of(&mut self, name: &Arc<str>) -> Option<&mut T> {
        let is_one = self.configured.as_ref().is_some_and(|names| names.contains(name));
        is_one.then(|| self.known.entry(Arc::clone(name)).or_default())
    }

    /// Whether each of them is known to be so.
    pub(crate) fn all(&self, is_so: impl Fn(&T) -> bool) -> bool {
        if mutated(Mutant::ClustersForgotten) {
            return true;
        }
        let known = |name| self.known.get(name).is_some_and(&is_so);
        self.configured.as_ref().is_some_and(|names| names.iter().all(known))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &T)> {
        self.known.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_named_again_goes_with_the_whole_list() {
        let mut reported = Reported::default();
        assert!(reported.heeds(1));
        for key in ["a", "b"] {
            reported.set(key, Some(1));
        }
        assert!(!reported.is_listed());
        assert_eq!(reported.listed(), BTreeSet::new());
        assert!(reported.heeds(2) && !reported.heeds(1));
        reported.set("b", Some(2));
        reported.set("c", Some(2));
        assert_eq!((reported.get(&"a"), reported.get(&"b")), (Some(&1), Some(&2)));
        assert_eq!(reported.listed(), ["a"].into());
        assert_eq!(reported.keys().collect::<Vec<_>>(), [&"b", &"c"]);
    }

    #[test]
    fn what_cannot_be_read_stays_as_long_as_it_is_named() {
        let mut reported = Reported::default();
        assert!(reported.heeds(1));
        reported.set("known", Some(1));
        reported.keep("known");
        reported.keep("never");
        assert_eq!(reported.listed(), BTreeSet::new());
        assert!(reported.heeds(2));
        reported.keep("known");
        assert_eq!(reported.listed(), ["never"].into(), "it is not named any more");
        assert_eq!(reported.get(&"known"), Some(&1));
        assert!(reported.heeds(3));
        assert_eq!(reported.listed(), ["known"].into());
        assert_eq!(reported.len(), 0);
    }

    #[test]
    fn a_cluster_is_kept_as_long_as_it_is_configured() {
        let mut clusters = Clusters::<u8>::new(true);
        let [a, b]: [Arc<str>; 2] = ["a".into(), "b".into()];
        assert!(clusters.of(&a).is_none() && !clusters.all(|_| true), "nobody has said which");
        clusters.configure([Arc::clone(&a), Arc::clone(&b)].into());
        *clusters.of(&a).unwrap() = 1;
        assert!(!clusters.all(|_| true), "b has said nothing");
        clusters.of(&b).unwrap();
        assert!(clusters.all(|_| true) && !clusters.all(|retained| *retained == 1));
        assert_eq!(clusters.configure([Arc::clone(&a)].into()), [(b, 0)]);
        assert!(clusters.all(|retained| *retained == 1));
        assert!(Clusters::<u8>::new(false).all(|_| false), "there are none");
    }
}
