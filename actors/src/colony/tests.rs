//! Random histories of a whole node. Whatever happened, once faults stop everybody is ready within
//! bounded time, everything that must be true is, and nothing is left behind.
//!
//! A history follows from its seed: `VOLVOX_SEED=n cargo test -p volvox-actors histories` runs
//! that one.

mod cases;
mod history;
mod named_ports;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use history::History;

/// How many are tried by default.
const HISTORIES: u64 = 150;

#[test]
fn random_histories_end_well() {
    let wanted = std::env::var("VOLVOX_SEED").ok().map(|text| text.parse().unwrap());
    let seeds = wanted.map_or(0..HISTORIES, |seed: u64| seed..seed + 1);
    for seed in seeds {
        let run = catch_unwind(AssertUnwindSafe(|| History::new(seed).run()));
        if let Err(panic) = run {
            eprintln!("the history of seed {seed} ended badly; VOLVOX_SEED={seed} runs it again");
            resume_unwind(panic);
        }
    }
}

#[test]
fn a_history_follows_from_its_seed() {
    let end = |seed| {
        let mut history = History::new(seed);
        history.run();
        (history.world.kernel.writes(), history.world.disk.log())
    };
    let first = end(7);
    assert!(!first.0.is_empty() && !first.1.is_empty());
    assert_eq!(first, end(7));
    assert_ne!(first, end(8));
}
