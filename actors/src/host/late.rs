//! Addresses of actors that are spawned later, for those that are spawned before them.

use std::{cell::OnceCell, rc::Rc};

/// An address that is there by the time anybody runs: behaviours are made when their cell first
/// runs, and no cell runs before the spawning has ended.
pub(crate) struct Late<T>(Rc<OnceCell<T>>);

impl<T> Default for Late<T> {
    fn default() -> Self {
        Self(Rc::default())
    }
}

impl<T> Clone for Late<T> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

impl<T: Clone> Late<T> {
    pub(crate) fn set(&self, address: T) {
        // Set once, by who spawns.
        let _ = self.0.set(address);
    }

    /// The address, if there is one by now.
    pub(crate) fn try_get(&self) -> Option<T> {
        self.0.get().cloned()
    }

    pub(crate) fn get(&self) -> T {
        self.0.get().expect("cells run after all are spawned").clone()
    }
}
