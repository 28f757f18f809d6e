//! The longest silence.

use std::time::{Duration, Instant};

use super::Report;

/// Longest time between two events.
#[derive(Default)]
pub(super) struct Gap {
    last: Option<Instant>,
    longest: Duration,
    /// When that began.
    since: Option<Instant>,
}

impl Gap {
    /// Something arrived.
    pub(super) fn mark(&mut self) {
        let now = Instant::now();
        if let Some(last) = self.last.replace(now)
            && now - last > self.longest
        {
            (self.longest, self.since) = (now - last, Some(last));
        }
    }

    /// Writes down how long it was, and since when.
    pub(super) fn tell(&self, report: &mut Report) {
        (report.longest_gap, report.gap_since) = (self.longest, self.since);
    }
}
