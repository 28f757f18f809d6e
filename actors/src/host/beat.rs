//! Shows a watchdog which handler runs now and since when, so that one that hangs is found.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::host::Time;

/// What the host's thread is at, for a watchdog on another thread.
#[derive(Debug, Default)]
pub struct Beat(Mutex<Last>);

/// The handler that began last. Its room is kept from one message to the next.
#[derive(Debug, Default)]
struct Last {
    handling: Handling,
    runs: bool,
}

/// A handler that has not returned yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
        let last = self.lock();
        last.runs.then(|| last.handling.clone())
    }

    pub(super) fn begin(&self, actor: &str, message: &'static str, since: Time) {
        let Last { handling, runs } = &mut *self.lock();
        handling.actor.clear();
        handling.actor.push_str(actor);
        (handling.message, handling.since, *runs) = (message, since, true);
    }

    pub(super) fn end(&self) {
        self.lock().runs = false;
    }

    fn lock(&self) -> MutexGuard<'_, Last> {
        // Nothing panics while it is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
