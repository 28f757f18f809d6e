//! The clock port, by the system's clocks.

use std::time::{SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};
use volvox_actors::host::{Clock, Time};

/// The machine's clocks: `CLOCK_MONOTONIC` for spans, which an agent and its next life share, and
/// the calendar for people.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Time {
        let now = clock_gettime(ClockId::Monotonic);
        // Monotonic time starts at zero and both parts are never negative.
        Time(now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs())
    }

    fn wall(&self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    }
}
