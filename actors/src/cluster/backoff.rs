//! Pauses between tries against a server that fails: exponential, bounded, and random by node.

use std::{hash::Hasher, time::Duration};

use crate::{
    cluster::dice::Dice,
    host::{Behaviour, Cx, Pauses, Retry},
};

const FIRST: Duration = Duration::from_millis(250);
const LONGEST: Duration = Duration::from_secs(30);
const PAUSES: Pauses = Pauses::Doubling { first: FIRST, most: LONGEST };

/// How long to leave a server alone that failed. Every source draws from its own numbers, so that
/// the nodes of a cluster do not all come back at the same moment.
pub(crate) struct Backoff {
    /// The pause is one that everyone who asks can see.
    tries: Retry,
    dice: Dice,
}

impl Backoff {
    /// Draws by the seed of the node and the name of the source.
    pub(crate) fn new(seed: u64, name: &str) -> Self {
        let mut hasher = std::hash::DefaultHasher::new();
        hasher.write_u64(seed);
        hasher.write(name.as_bytes());
        Self { tries: Retry::default(), dice: Dice::new(hasher.finish()) }
    }

    /// How often it failed, one after the other.
    pub(crate) fn failures(&self) -> u32 {
        self.tries.failures()
    }

    /// Whether to ask it now: nothing is out. A pause ends.
    #[must_use]
    pub(crate) fn begin_now<B: Behaviour>(&mut self, cx: &mut Cx<'_, B>) -> bool {
        self.tries.begin_now(cx)
    }

    /// There is an answer, which is neither a success nor a failure of the whole.
    pub(crate) fn answered(&mut self) {
        self.tries.answered();
    }

    /// It answers again.
    pub(crate) fn succeeded(&mut self) {
        self.tries.succeeded();
    }

    /// It failed, and wants to be left alone at least that long: how long it is.
    pub(crate) fn failed(&mut self, at_least: Duration) -> Duration {
        let pause = self.tries.count_failure(PAUSES);
        at_least.max(pause / 2) + self.up_to(pause / 2)
    }

    /// Leaves it alone for that long, which everyone can see.
    pub(crate) fn pause<B: Behaviour>(
        &mut self,
        cx: &mut Cx<'_, B>,
        span: Duration,
        why: String,
        again: impl FnOnce() -> B::Answer + 'static,
    ) {
        self.tries.pause_in_sight(cx, ("cluster", span), why, again);
    }

    /// Whether it is left alone.
    pub(crate) fn is_pausing(&self) -> bool {
        self.tries.is_pausing()
    }

    /// The pause is over.
    pub(crate) fn over(&mut self) {
        self.tries.over();
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
