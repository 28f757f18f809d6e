//! An outage of the store: since when, how often it was tried, and when it is tried again.

use std::time::Duration;

use super::session::Unreachable;
use crate::{
    cluster::dice::Dice,
    host::{Behaviour, Cx, Pauses, Reply},
};

/// Pauses before it is tried again.
const PAUSES: Pauses =
    Pauses::Doubling { first: Duration::from_millis(500), most: Duration::from_secs(10) };

/// A time without the store, and the pause until it is tried again: a wait that people see.
pub(super) struct Outage {
    dice: Dice,
    /// Nanoseconds since 1970, UTC.
    since: Option<u64>,
    error: String,
    failures: u32,
    pause: Option<Reply<()>>,
}

impl Outage {
    pub(super) fn new(dice: Dice) -> Self {
        Self { dice, since: None, error: String::new(), failures: 0, pause: None }
    }

    /// Has that message come after a while, unless one is on its way already.
    pub(super) fn pause<B: Behaviour>(
        &mut self,
        cx: &mut Cx<'_, B>,
        error: String,
        again: impl FnOnce() -> B::Answer + 'static,
    ) {
        if self.is_pausing() {
            return;
        }
        let since = *self.since.get_or_insert(cx.wall());
        self.failures += 1;
        let span = self.dice.jitter(PAUSES.after(self.failures));
        let why = format!(
            "it is unreachable since {}: {error}; retry in {:.1} s",
            time_of_day(since),
            span.as_secs_f64()
        );
        if self.failures == 1 {
            tracing::warn!(%error, "kvstore is unreachable; what is known stays in force");
        }
        self.error = error;
        // Answered by nobody: its deadline is what is waited for.
        self.pause = Some(cx.expect("kvstore", span, why, |_| again()));
    }

    pub(super) fn is_pausing(&self) -> bool {
        self.pause.as_ref().is_some_and(|pause| !pause.is_closed())
    }

    /// Whether the store did not answer the last time.
    pub(super) fn is_on(&self) -> bool {
        self.since.is_some()
    }

    /// The store answered. A pause ends at once.
    pub(super) fn end(&mut self) {
        self.pause = None;
        if self.since.take().is_some() {
            tracing::info!(failures = self.failures, "kvstore answers again");
        }
        self.failures = 0;
        self.error.clear();
    }

    pub(super) fn view(&self) -> Option<Unreachable> {
        self.since.map(|since| Unreachable { since, error: self.error.clone() })
    }
}

/// The hour of a moment, for people.
fn time_of_day(wall: u64) -> String {
    let seconds = wall / 1_000_000_000 % 86_400;
    format!("{:02}:{:02}:{:02} UTC", seconds / 3600, seconds / 60 % 60, seconds % 60)
}
