//! When to create TCX links: while nobody works at interfaces, or when that takes too long to come.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

/// How long no interface was worked at before links are created: pods come in bursts.
const QUIET: Duration = Duration::from_millis(100);
/// After this long a link is created all the same.
pub(super) const LONGEST: Duration = Duration::from_secs(5);

/// Keeps what may wait from what must not.
///
/// Creating a TCX link holds the kernel's lock over all interfaces (RTNL) for a grace period, 8 to
/// 16 ms. Whoever creates a pod meanwhile would wait for it several times. So links are created
/// when nobody has worked at interfaces for a while; the filters that they replace serve until
/// then. This is courtesy only: nothing depends on the times.
#[derive(Debug)]
pub(super) struct Pace(Mutex<Work>);

#[derive(Debug)]
struct Work {
    under_way: usize,
    last: Instant,
}

impl Pace {
    /// Nobody works, and nobody has.
    pub(super) fn new() -> Self {
        let last = Instant::now().checked_sub(QUIET).unwrap_or_else(Instant::now);
        Self(Mutex::new(Work { under_way: 0, last }))
    }

    fn work(&self) -> MutexGuard<'_, Work> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Somebody begins to work at interfaces.
    pub(super) fn begin(&self) {
        self.work().under_way += 1;
    }

    /// And has ended.
    pub(super) fn end(&self) {
        let mut work = self.work();
        work.under_way -= 1;
        work.last = Instant::now();
    }

    /// How long to wait before it is worth asking again; `None` if it is quiet.
    fn pause(&self) -> Option<Duration> {
        let work = self.work();
        if work.under_way > 0 {
            return Some(QUIET);
        }
        QUIET.checked_sub(work.last.elapsed()).filter(|left| !left.is_zero())
    }

    /// Returns when it is quiet, or has not been for too long.
    pub(super) fn wait(&self) {
        let since = Instant::now();
        while let Some(pause) = self.pause() {
            if since.elapsed() >= LONGEST {
                return;
            }
            thread::sleep(pause);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn links_wait_for_who_works_at_interfaces() {
        let pace = Pace::new();
        pace.wait();
        let ended = AtomicBool::new(false);
        pace.begin();
        thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                pace.wait();
                ended.load(Ordering::SeqCst)
            });
            ended.store(true, Ordering::SeqCst);
            pace.end();
            assert!(waiting.join().unwrap());
        });
    }
}
