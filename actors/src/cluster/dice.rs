//! Pseudo-random numbers by seed, for pauses and for the choice of identity numbers.

use std::time::Duration;

/// Randomness that can be repeated: Vigna's splitmix64.
#[derive(Clone, Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Between half of a span and all of it: nodes that lost a server together do not come back in
    /// step.
    pub(crate) fn jitter(&mut self, span: Duration) -> Duration {
        let half = span / 2;
        half + Duration::from_millis(self.number() % (half.as_millis() as u64).max(1))
    }
}
