//! Sending at a bounded rate.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

/// Longest sleep without a look at the stop flag.
const LOOK: Duration = Duration::from_millis(50);

/// Ticks `rate` times a second until told to stop. A tick that is late is not made up for by a
/// burst: a burst would fill queues that the test is not about.
pub(super) struct Pace<'a> {
    stop: &'a AtomicBool,
    interval: Duration,
    next: Instant,
}

impl<'a> Pace<'a> {
    pub(super) fn new(per_second: u32, stop: &'a AtomicBool) -> Self {
        let interval = Duration::from_secs(1) / per_second.max(1);
        Self { stop, interval, next: Instant::now() }
    }

    /// Waits for the next tick; false once stopped.
    pub(super) fn tick(&mut self) -> bool {
        loop {
            if self.stop.load(Ordering::Relaxed) {
                return false;
            }
            let now = Instant::now();
            if now >= self.next {
                self.next = (self.next + self.interval).max(now);
                return true;
            }
            thread::sleep((self.next - now).min(LOOK));
        }
    }
}
