//! Histories on all processors.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

use crate::runner::{Failure, Tally};

pub(super) fn threads() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Lives through these seeds on all processors: all together, and those that failed by seed.
pub(super) fn all(
    seeds: std::ops::RangeInclusive<u64>,
    live: impl Fn(u64) -> Result<Tally, Failure> + Sync,
) -> (Tally, Vec<(u64, Failure)>) {
    let next = AtomicU64::new(*seeds.start());
    let found = Mutex::new((Tally::default(), Vec::new()));
    thread::scope(|scope| {
        for _ in 0..threads() {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed > *seeds.end() {
                        return;
                    }
                    let outcome = live(seed);
                    let mut found = found.lock().unwrap_or_else(|broken| broken.into_inner());
                    match outcome {
                        Ok(tally) => {
                            found.0.lives += tally.lives;
                            found.0.endpoints += tally.endpoints;
                            found.0.verdicts += tally.verdicts;
                            found.0.records += tally.records;
                            found.0.cpu += tally.cpu;
                        }
                        Err(failure) => found.1.push((seed, failure)),
                    }
                }
            });
        }
    });
    let (total, mut failed) = found.into_inner().unwrap_or_else(|broken| broken.into_inner());
    failed.sort_by_key(|(seed, _)| *seed);
    (total, failed)
}
