//! Remote clusters in memory: a store for each, which tests configure and remove.

use std::{cell::RefCell, collections::BTreeMap, rc::Rc};

use super::MemoryKvStore;
use crate::{
    host::Time,
    ports::{ClustersSink, RemoteClusters, Way},
};

/// Other clusters' stores, and which of them are configured.
#[derive(Clone, Default)]
pub struct MemoryRemoteClusters(Rc<RefCell<MemoryRemoteClustersState>>);

#[derive(Default)]
struct MemoryRemoteClustersState {
    stores: BTreeMap<String, (MemoryKvStore, u64)>,
    versions: u64,
    tell: Option<ClustersSink>,
}

impl MemoryRemoteClusters {
    /// That cluster is configured from now on, or in another way.
    pub fn configure(&self, name: &str, store: &MemoryKvStore) {
        let mut inner = self.0.borrow_mut();
        inner.versions += 1;
        let version = inner.versions;
        inner.stores.insert(name.to_owned(), (store.clone(), version));
        drop(inner);
        self.tell();
    }

    /// It is not any more.
    pub fn remove(&self, name: &str) {
        self.0.borrow_mut().stores.remove(name);
        self.tell();
    }

    fn tell(&self) {
        let mut inner = self.0.borrow_mut();
        let ways = inner.stores.iter().map(|(name, (store, version))| {
            (name.clone(), Way { store: Rc::new(store.clone()), version: *version })
        });
        let ways = ways.collect();
        if let Some(tell) = &mut inner.tell {
            tell(ways);
        }
    }

    /// Nobody waits for anything any more.
    pub fn forget(&self) {
        let mut inner = self.0.borrow_mut();
        inner.tell = None;
        inner.stores.values().for_each(|(store, _)| store.forget());
    }

    /// The node's clock begins anew, the stores' go on.
    pub fn restart_clock(&self) {
        self.0.borrow().stores.values().for_each(|(store, _)| store.restart_clock());
    }

    /// Has one of the stores do something; whether there was anything.
    pub fn step(&self, now: Time) -> bool {
        let stores: Vec<_> =
            self.0.borrow().stores.values().map(|(store, _)| store.clone()).collect();
        stores.iter().any(|store| store.step(now, 0))
    }
}

impl RemoteClusters for MemoryRemoteClusters {
    fn follow(&self, tell: ClustersSink) {
        self.0.borrow_mut().tell = Some(tell);
        self.tell();
    }
}
