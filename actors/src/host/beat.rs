use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::ports::Time;

/// What the host's thread is at, for a watchdog on another thread.
#[derive(Debug, Default)]
pub struct Beat(Mutex<Option<Handling>>);

/// A handler that has not returned yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handling {
    /// Whose it is.
    pub actor: String,
    /// The message's kind; empty while the behaviour is made.
    pub message: &'static str,
    /// When it began, by the host's clock.
    pub since: Time,
}

impl Beat {
    /// The handler that runs right now, if one does.
    pub fn handling(&self) -> Option<Handling> {
        self.lock().clone()
    }

    pub(super) fn begin(&self, actor: &str, message: &'static str, since: Time) {
        let mut handling = self.lock();
        // The name's room is kept from one message to the next.
        let mut name = handling.take().map(|before| before.actor).unwrap_or_default();
        name.clear();
        name.push_str(actor);
        *handling = Some(Handling { actor: name, message, since });
    }

    pub(super) fn end(&self) {
        *self.lock() = None;
    }

    fn lock(&self) -> MutexGuard<'_, Option<Handling>> {
        // Nothing panics while it is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
