//! The timers of a host, sorted by when they are due.

use std::collections::BTreeMap;

use crate::host::Time;

/// A timer that can be cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TimerId {
    pub(super) at: Time,
    pub(super) seq: u64,
}

type TimerCallback = Box<dyn FnOnce()>;

/// What is to happen when. Equal times fire in the order in which they were set.
#[derive(Default)]
pub(super) struct Timers {
    set: BTreeMap<TimerId, TimerCallback>,
    seq: u64,
}

impl Timers {
    pub(super) fn at(&mut self, at: Time, then: TimerCallback) -> TimerId {
        self.seq += 1;
        let id = TimerId { at, seq: self.seq };
        self.set.insert(id, then);
        id
    }

    /// Returned rather than dropped here: dropping may run code that sets timers.
    pub(super) fn cancel(&mut self, id: TimerId) -> Option<TimerCallback> {
        self.set.remove(&id)
    }

    pub(super) fn next(&self) -> Option<Time> {
        self.set.keys().next().map(|id| id.at)
    }

    pub(super) fn take_due(&mut self, now: Time) -> Option<TimerCallback> {
        let first = self.set.first_entry()?;
        (first.key().at <= now).then(|| first.remove())
    }
}
