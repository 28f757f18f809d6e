//! Pauses between tries against a server that fails: exponential, bounded, and random by node.

use std::{hash::Hasher, time::Duration};

use crate::cluster::dice::Dice;

/// The first pause after a failure; the next ones are twice as long each.
const FIRST: Duration = Duration::from_millis(250);
/// The longest.
const LONGEST: Duration = Duration::from_secs(30);

/// How long to leave a server alone that failed. Every source draws from its own numbers, so that
/// the nodes of a cluster do not all come back at the same moment.
#[derive(Clone, Debug)]
pub(crate) struct Backoff {
    failures: u32,
    dice: Dice,
}

impl Backoff {
    /// Draws by the seed of the node and the name of the source.
    pub(crate) fn new(seed: u64, name: &str) -> Self {
        let mut hasher = std::hash::DefaultHasher::new();
        hasher.write_u64(seed);
        hasher.write(name.as_bytes());
        Self { failures: 0, dice: Dice::new(hasher.finish()) }
    }

    /// How often it failed, one after the other.
    pub(crate) fn failures(&self) -> u32 {
        self.failures
    }

    /// It answers again.
    pub(crate) fn succeeded(&mut self) {
        self.failures = 0;
    }

    /// It failed, and wants to be left alone at least that long: how long it is.
    pub(crate) fn failed(&mut self, at_least: Duration) -> Duration {
        let doubled = FIRST.saturating_mul(1 << self.failures.min(16));
        self.failures = self.failures.saturating_add(1);
        let pause = doubled.min(LONGEST);
        at_least.max(pause / 2) + self.up_to(pause / 2)
    }

    /// A span of this length, or up to so much more.
    pub(crate) fn spread(&mut self, least: Duration, more: Duration) -> Duration {
        least + self.up_to(more)
    }

    fn up_to(&mut self, span: Duration) -> Duration {
        let millis = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        Duration::from_millis(self.dice.number() % millis.saturating_add(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_bound_and_differ_between_nodes() {
        let (mut one, mut other) = (Backoff::new(1, "pods"), Backoff::new(2, "pods"));
        let pauses = |of: &mut Backoff| (0..20).map(|_| of.failed(Duration::ZERO)).collect();
        let (ones, others): (Vec<_>, Vec<_>) = (pauses(&mut one), pauses(&mut other));
        assert_ne!(ones, others);
        assert!(ones[0] <= FIRST && ones[0] >= FIRST / 2, "{ones:?}");
        assert!(ones.iter().all(|pause| *pause <= LONGEST) && ones[19] >= LONGEST / 2, "{ones:?}");
        assert!(one.failed(Duration::from_secs(90)) >= Duration::from_secs(90));
        one.succeeded();
        assert!(one.failed(Duration::ZERO) <= FIRST);
    }
}
