//! What of an actor outlives a crash of its handler.
//!
//! What survives is held apart from what does not, the behaviour itself. The actor's factory makes
//! a [`Survives`] and lends what is in it to each life of the behaviour, which changes it like a field
//! of its own. When a life ends, by a crash or otherwise, it gives back what it had, as it was then.

use std::{
    cell::Cell,
    fmt,
    ops::{Deref, DerefMut},
    rc::Rc,
};

/// The place of what outlives a crash.
pub struct Survives<T>(Rc<Cell<Option<T>>>);

impl<T> Survives<T> {
    /// A place that holds what the first life begins with.
    pub fn new(first: T) -> Self {
        Self(Rc::new(Cell::new(Some(first))))
    }

    /// Lends it to a life of the actor, until that ends.
    ///
    /// # Panics
    ///
    /// If the run before still has it: an actor has one life at a time.
    pub fn lend(&self) -> Lent<T> {
        let lent = self.0.take();
        assert!(lent.is_some(), "the life before still has what is to survive it");
        Lent { lent, place: Rc::clone(&self.0) }
    }
}

impl<T: Default> Default for Survives<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

/// What a life has of the lives before, and hands on.
pub struct Lent<T> {
    /// There until it is dropped.
    lent: Option<T>,
    place: Rc<Cell<Option<T>>>,
}

impl<T> Deref for Lent<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.lent.as_ref().expect("it is given back at the end only")
    }
}

impl<T> DerefMut for Lent<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.lent.as_mut().expect("it is given back at the end only")
    }
}

impl<T> Drop for Lent<T> {
    fn drop(&mut self) {
        self.place.set(self.lent.take());
    }
}

impl<T: fmt::Debug> fmt::Debug for Lent<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
