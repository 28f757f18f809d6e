//! Time: monotonic time to reckon with, wall-clock time to show.

use std::{fmt, ops::Add, time::Duration};

use serde::{Deserialize, Serialize};

/// A moment: nanoseconds since an origin that only the clock knows.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Time(pub u64);

impl Time {
    /// How long after `earlier` this is; zero if it is not.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Time {
    type Output = Self;

    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09}", self.0 / 1_000_000_000, self.0 % 1_000_000_000)
    }
}

/// The only source of time for an actor.
pub trait Clock {
    /// Monotonic time; spans and deadlines are made of it.
    fn now(&self) -> Time;

    /// Nanoseconds since 1970, UTC; only to be shown and stored, never compared.
    fn wall(&self) -> u64;
}
