//! Randomness that can be repeated.

use std::time::Duration;

/// Marsaglia's xorshift64: everything that a run draws follows from its seed.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Draws as given by `seed`.
    pub fn new(seed: u64) -> Self {
        // Any bits but all zeros, and small seeds spread.
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number below `sides`, which is not 0.
    pub fn roll(&mut self, sides: usize) -> usize {
        // The upper bits: the lower ones of this generator are poorer.
        (self.number() >> 16) as usize % sides
    }

    /// One of these, of which there is at least one.
    pub fn one_of<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.roll(all.len())].clone()
    }

    /// A time shorter than `limit`, to the microsecond.
    pub fn below(&mut self, limit: Duration) -> Duration {
        Duration::from_micros(self.number() % (limit.as_micros() as u64).max(1))
    }
}
