//! Settings that change while an actor lives, and stay changed over its crashes.

use std::{cell::RefCell, rc::Rc};

/// What each life of an actor begins with, and may replace.
pub(crate) struct Changing<T>(Rc<RefCell<Rc<T>>>);

impl<T> Clone for Changing<T> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

impl<T> Changing<T> {
    pub(crate) fn new(settings: T) -> Self {
        Self(Rc::new(RefCell::new(Rc::new(settings))))
    }

    /// As they are now.
    pub(crate) fn get(&self) -> Rc<T> {
        Rc::clone(&self.0.borrow())
    }

    /// They are so from now on.
    pub(crate) fn set(&self, settings: T) -> Rc<T> {
        let settings = Rc::new(settings);
        self.0.replace(Rc::clone(&settings));
        settings
    }
}
