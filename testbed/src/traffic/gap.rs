//! The longest silence.

use std::time::{Duration, Instant};

/// Longest time between two events.
#[derive(Default)]
pub(super) struct Gap {
    last: Option<Instant>,
    longest: Duration,
}

impl Gap {
    /// Something arrived.
    pub(super) fn mark(&mut self) {
        let now = Instant::now();
        if let Some(last) = self.last.replace(now) {
            self.longest = self.longest.max(now - last);
        }
    }

    pub(super) fn longest(&self) -> Duration {
        self.longest
    }
}
