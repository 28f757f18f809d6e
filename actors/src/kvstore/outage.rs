use std::time::Duration;

use super::session::Unreachable;
use crate::host::{Behaviour, Cx, Reply};

/// Pause before the first try again; it doubles with each failure.
const PAUSE_MIN: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// Randomness that can be repeated: Vigna's splitmix64.
#[derive(Clone, Debug)]
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Between half of a span and all of it: nodes that lost the store together do not come back
    /// in step.
    pub(super) fn jitter(&mut self, span: Duration) -> Duration {
        let half = span / 2;
        half + Duration::from_millis(self.number() % (half.as_millis() as u64).max(1))
    }
}

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
        again: impl FnOnce() -> B::Msg + 'static,
    ) {
        if self.is_pausing() {
            return;
        }
        let since = *self.since.get_or_insert(cx.wall());
        let span = PAUSE_MAX.min(PAUSE_MIN * 2u32.pow(self.failures.min(8)));
        let span = self.dice.jitter(span);
        self.failures += 1;
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
