//! How often the same is put right in a row: who takes it away each time is not fought without end.

use std::time::Duration;

use crate::host::Time;

/// Repairs that are made one after the other without waiting.
const AT_ONCE: u32 = 10;
/// After them there is one in this time.
const EVERY: Duration = Duration::from_secs(5);

/// A right to repair things, which comes again slowly where it is used up.
#[derive(Debug)]
pub(crate) struct Repairs {
    left: u32,
    since: Time,
}

impl Default for Repairs {
    fn default() -> Self {
        Self { left: AT_ONCE, since: Time::default() }
    }
}

impl Repairs {
    /// How long the next repair has to wait; `None` if it may be made now.
    pub(crate) fn wait(&mut self, now: Time) -> Option<Duration> {
        let passed = now.since(self.since);
        let earned = passed.as_nanos() / EVERY.as_nanos();
        if earned > 0 {
            let earned = u32::try_from(earned).unwrap_or(u32::MAX);
            (self.left, self.since) = (self.left.saturating_add(earned).min(AT_ONCE), now);
        }
        (self.left == 0).then(|| EVERY.saturating_sub(passed))
    }

    /// One is made.
    pub(crate) fn spend(&mut self, now: Time) {
        if self.left == AT_ONCE {
            self.since = now;
        }
        self.left = self.left.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_are_made_at_once_and_then_one_every_five_seconds() {
        let (mut repairs, mut now, mut made) = (Repairs::default(), Time::default(), 0);
        for second in 0..120 {
            // Somebody takes it away ten times a second.
            for _ in 0..10 {
                if repairs.wait(now).is_none() {
                    repairs.spend(now);
                    made += 1;
                }
            }
            if second == 0 {
                assert_eq!(made, AT_ONCE);
            }
            now = now + Duration::from_secs(1);
        }
        assert!((30..=35).contains(&made), "{made}");
        // After a time of rest as many are made at once as in the beginning.
        now = now + Duration::from_secs(60);
        let at_once = (0..100).filter(|_| {
            let may = repairs.wait(now).is_none();
            repairs.spend(now);
            may
        });
        assert_eq!(at_once.count(), 10);
    }
}
