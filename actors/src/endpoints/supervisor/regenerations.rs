//! Counts of finished builds and histograms of how long they took, for metrics.

use std::time::Duration;

use crate::endpoints::endpoint::EndpointView;

/// Builds of all endpoints since the agent's start, also of those that are gone.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Regenerations {
    /// Those that succeeded.
    pub succeeded: Lengths,
    /// Those that failed.
    pub failed: Lengths,
}

/// How long builds took.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lengths {
    /// How many there were.
    pub count: u64,
    /// How long they took together.
    pub total: Duration,
    /// How many took no longer than each of [`Lengths::BOUNDS`], and longer than the one before.
    pub buckets: [u64; Self::BOUNDS.len()],
}

impl Lengths {
    /// The bounds that Prometheus' clients have, seconds.
    pub const BOUNDS: [f64; 11] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

    fn add(&mut self, length: Duration) {
        self.count += 1;
        self.total += length;
        let seconds = length.as_secs_f64();
        if let Some(bucket) = Self::BOUNDS.iter().position(|bound| seconds <= *bound) {
            self.buckets[bucket] += 1;
        }
    }
}

impl Regenerations {
    /// An endpoint changed: whether a build of it ended.
    pub(super) fn seen(&mut self, before: &EndpointView, now: &EndpointView) {
        // An actor that crashed counts from the beginning again.
        let grew = |before: u64, now: u64| now > if now < before { 0 } else { before };
        if grew(before.counts.builds, now.counts.builds) {
            self.succeeded.add(now.counts.last_build);
        }
        if grew(before.counts.failures, now.counts.failures) {
            self.failed.add(now.counts.last_build);
        }
    }
}
