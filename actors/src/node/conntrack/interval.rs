//! Chooses the time between two rounds from what the last one found.

use std::time::Duration;

/// Before anything is known of the node's traffic.
pub(super) const FIRST: Duration = Duration::from_secs(300);
/// No round comes sooner after another one unless it was configured so.
pub(super) const MIN: Duration = Duration::from_secs(10);
const MAX: Duration = Duration::from_secs(12 * 3600);

/// From this fill on, percent, rounds come no later than that. A table that fills with live flows has
/// nothing dead to show, and would be looked at every twelve hours just when its last rows go: then the
/// kernel evicts what lives.
const CROWDED: u8 = 75;
const CROWDED_MAX: Duration = Duration::from_secs(300);

/// Above this share of dead rows rounds come sooner, by that share but never all of it.
const MANY: f64 = 0.25;
const SHARE_MAX: f64 = 0.9;
/// Below this share they come later.
const FEW: f64 = 0.05;
const LATER: f64 = 1.5;

/// Whether a round that removed so many of those that it saw was worth it.
pub(super) fn is_worth_it(seen: u64, deleted: u64) -> bool {
    share(seen, deleted) >= FEW
}

fn share(seen: u64, deleted: u64) -> f64 {
    if seen == 0 { 0.0 } else { deleted as f64 / seen as f64 }
}

/// The time until the next round: as Cilium 1.19 chooses it from what the last one found, but not long
/// where a table is filling up.
pub(super) fn next(interval: Duration, seen: u64, deleted: u64, fill: u8) -> Duration {
    let latest = if fill > CROWDED { CROWDED_MAX } else { MAX };
    let share = share(seen, deleted);
    let factor = if share > MANY {
        1.0 - share.min(SHARE_MAX)
    } else if share < FEW {
        LATER
    } else {
        1.0
    };
    interval.mul_f64(factor).clamp(MIN, latest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_what_there_is_to_collect_within_bounds() {
        for (seconds, seen, deleted, expected) in [
            (300, 0, 0, 450),
            (300, 100, 4, 450),
            (300, 100, 5, 300),
            (300, 100, 25, 300),
            (300, 100, 50, 150),
            (300, 100, 100, 30),
            (20, 100, 90, 10),
            (40_000, 100, 0, 43_200),
        ] {
            let interval = next(Duration::from_secs(seconds), seen, deleted, CROWDED);
            assert_eq!(interval.as_secs_f64().round(), f64::from(expected), "{deleted} of {seen}");
        }
    }

    #[test]
    fn a_table_that_fills_up_is_looked_at_every_few_minutes() {
        let next = |seconds, deleted| next(Duration::from_secs(seconds), 100, deleted, CROWDED + 1);
        assert_eq!(next(40_000, 0), CROWDED_MAX, "all that is found lives");
        assert_eq!(next(40_000, 10), CROWDED_MAX);
        assert_eq!(next(300, 50), Duration::from_secs(150), "there is much to collect");
    }
}
