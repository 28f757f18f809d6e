//! One way to probe one address: what came of it, and when it is tried next.

use std::time::Duration;

use super::{schedule::BELIEVED, view::ProbeResult};
use crate::{host::Time, ports::Echo};

/// A kind of probe of an address.
#[derive(Debug)]
pub(super) struct ProbeCheck {
    /// What is believed of it; nothing before the first success or a few failures.
    pub(super) shown: Option<ProbeResult>,
    /// How often it failed, one after the other.
    failures: u32,
    /// When it is tried next.
    pub(super) due: Time,
    /// Whether an answer is awaited.
    pub(super) out: bool,
}

/// When a probe is tried again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Again {
    /// After a success.
    pub(super) usual: Duration,
    /// After a failure that is not believed yet.
    pub(super) soon: Duration,
    /// After one that is.
    pub(super) failing: Duration,
}

impl ProbeCheck {
    pub(super) fn new(due: Time) -> Self {
        Self { shown: None, failures: 0, due, out: false }
    }

    /// Whether it is to be tried now.
    pub(super) fn is_due(&self, now: Time) -> bool {
        !self.out && self.due <= now
    }

    /// When it is to be tried; nothing while it is being tried.
    pub(super) fn next(&self) -> Option<Time> {
        (!self.out).then_some(self.due)
    }

    /// Tries it as soon as possible.
    pub(super) fn hasten(&mut self, now: Time) {
        self.due = self.due.min(now);
    }

    /// Takes in what came of a try; whether what is believed is good now and was not, or the other way round.
    pub(super) fn answered(&mut self, outcome: Echo, now: Time, wall: u64, again: Again) -> bool {
        let before = self.is_good();
        self.out = false;
        match outcome {
            Ok(latency) => {
                self.failures = 0;
                self.shown = Some(ProbeResult { latency, error: None, probed: wall });
                self.due = now + again.usual;
            }
            Err(error) => {
                self.failures = self.failures.saturating_add(1);
                let believed = self.failures >= BELIEVED;
                if believed {
                    let latency = Duration::ZERO;
                    self.shown = Some(ProbeResult { latency, error: Some(error), probed: wall });
                }
                self.due = now + if believed { again.failing } else { again.soon };
            }
        }
        self.is_good() != before
    }

    /// No answer came, nor the news that there is none.
    pub(super) fn unanswered(&mut self, now: Time, again: Again) {
        self.out = false;
        self.due = now + again.soon;
    }

    /// What is believed: nothing, if nothing is known.
    pub(super) fn is_good(&self) -> Option<bool> {
        self.shown.as_ref().map(|shown| shown.error.is_none())
    }
}
