//! Asking, trying again and giving up: what is asked again until it is done.
//!
//! ```text
//!         begin               failed, pause
//!  Idle ─────────▶ Asked ────────────────────▶ Pausing ──┐
//!   ▲  ▲             │                            │      │ begin_now
//!   │  └─────────────┘ succeeded, answered        │      └─────────▶ Asked
//!   └──────────────────────────────── over ───────┘
//! ```
//!
//! A question is out or a pause runs, never both, and there is one timer at most. What is asked is
//! computed when it is asked: it is what is desired by then. A crash ends it like the timers and
//! answers of that life, for a [`Retry`] belongs to the behaviour.

use std::{borrow::Cow, mem, time::Duration};

use super::{Behaviour, Cx, Reply, TimerId};

#[cfg(test)]
mod tests;

/// How long to pause after a failure, by how many there were in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pauses {
    /// Always as long.
    Fixed(Duration),
    /// After the nth failure n steps, up to the longest.
    Linear {
        /// The first pause.
        step: Duration,
        /// The longest.
        most: Duration,
    },
    /// Twice as long each time, up to the longest.
    Doubling {
        /// The first pause.
        first: Duration,
        /// The longest.
        most: Duration,
    },
}

impl Pauses {
    /// The pause after so many failures in a row, at least one.
    pub fn after(self, failures: u32) -> Duration {
        match self {
            Self::Fixed(span) => span,
            Self::Linear { step, most } => step.saturating_mul(failures).min(most),
            Self::Doubling { first, most } => {
                let factor = 2_u32.saturating_pow(failures.saturating_sub(1));
                first.saturating_mul(factor).min(most)
            }
        }
    }
}

/// One thing that is asked again until it is done, and how often it failed in a row.
#[derive(Default)]
pub struct Retry {
    failures: u32,
    state: RetryState,
}

#[derive(Default)]
enum RetryState {
    #[default]
    Idle,
    Asked,
    Pausing(TimerId),
    /// A pause that is a wait like any other, which people see. It is answered by nobody: its
    /// deadline is its end, or that it is dropped.
    PausingInSight {
        _pause: Reply<()>,
    },
}

impl Retry {
    /// Whether to ask: nothing is out, and no pause runs.
    #[must_use]
    pub fn begin(&mut self) -> bool {
        let begins = self.is_idle();
        if begins {
            self.asked();
        }
        begins
    }

    /// Something is asked by who saw before that [`Retry::is_idle`].
    pub fn asked(&mut self) {
        debug_assert!(self.is_idle(), "one question at a time");
        self.state = RetryState::Asked;
    }

    /// Whether to ask: nothing is out. A pause ends.
    #[must_use]
    pub fn begin_now<B: Behaviour>(&mut self, cx: &mut Cx<'_, B>) -> bool {
        let begins = !self.is_asked();
        if begins {
            self.enter(RetryState::Asked, cx);
        }
        begins
    }

    /// What was asked is done.
    pub fn succeeded(&mut self) {
        self.failures = 0;
        self.answered();
    }

    /// There is an answer, which is neither a success nor a failure of the whole.
    pub fn answered(&mut self) {
        if self.is_asked() {
            self.state = RetryState::Idle;
        }
    }

    /// It failed, and that answer comes after a pause. How long that is.
    pub fn failed<B: Behaviour>(
        &mut self,
        pauses: Pauses,
        cx: &mut Cx<'_, B>,
        answer: B::Answer,
    ) -> Duration {
        let span = self.count_failure(pauses);
        self.pause(cx, span, answer);
        span
    }

    /// It failed, and who asked sees to the pause. How long that is to be.
    #[must_use]
    pub fn count_failure(&mut self, pauses: Pauses) -> Duration {
        self.failures = self.failures.saturating_add(1);
        self.answered();
        pauses.after(self.failures)
    }

    /// That answer comes after a pause, in place of one that is set.
    pub fn pause<B: Behaviour>(&mut self, cx: &mut Cx<'_, B>, span: Duration, answer: B::Answer) {
        let timer = cx.after(span, answer);
        self.enter(RetryState::Pausing(timer), cx);
    }

    /// That answer comes after a pause, unless one runs.
    pub fn pause_once<B: Behaviour>(
        &mut self,
        cx: &mut Cx<'_, B>,
        span: Duration,
        answer: B::Answer,
    ) {
        if !self.is_pausing() {
            self.pause(cx, span, answer);
        }
    }

    /// That answer comes after a pause, for which everyone can see the reason.
    pub fn pause_in_sight<B: Behaviour>(
        &mut self,
        cx: &mut Cx<'_, B>,
        (port, span): (&'static str, Duration),
        why: impl Into<Cow<'static, str>>,
        answer: impl FnOnce() -> B::Answer + 'static,
    ) {
        let pause = cx.expect(port, span, why, |_| answer());
        self.enter(RetryState::PausingInSight { _pause: pause }, cx);
    }

    /// The pause is over.
    pub fn over(&mut self) {
        if self.is_pausing() {
            self.state = RetryState::Idle;
        }
    }

    /// Nothing will come of a question or a pause, if there is one. Failures count on.
    pub fn give_up(&mut self) {
        self.state = RetryState::Idle;
    }

    /// Neither is a question out, nor does a pause run.
    pub fn is_idle(&self) -> bool {
        matches!(self.state, RetryState::Idle)
    }

    /// A question is out.
    pub fn is_asked(&self) -> bool {
        matches!(self.state, RetryState::Asked)
    }

    /// A pause runs.
    pub fn is_pausing(&self) -> bool {
        matches!(self.state, RetryState::Pausing(_) | RetryState::PausingInSight { .. })
    }

    /// How often it failed, one after the other.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    fn enter<B: Behaviour>(&mut self, state: RetryState, cx: &mut Cx<'_, B>) {
        if let RetryState::Pausing(timer) = mem::replace(&mut self.state, state) {
            cx.cancel(timer);
        }
    }
}
