//! Memory of a ring as words: read from bytes or shared memory, and stored in the right order.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// Memory that is read in words of eight bytes, little end first. What is beyond its end reads as
/// zero, so that a file cut short is only one with less in it.
pub trait Words {
    /// How many whole words there are.
    fn count(&self) -> usize;
    /// The word at that place.
    fn word(&self, at: usize) -> u64;
}

impl Words for [u8] {
    fn count(&self) -> usize {
        self.len() / 8
    }

    fn word(&self, at: usize) -> u64 {
        let bytes = self.get(at * 8..at * 8 + 8).and_then(|bytes| bytes.try_into().ok());
        bytes.map_or(0, u64::from_le_bytes)
    }
}

impl Words for [AtomicU64] {
    fn count(&self) -> usize {
        self.len()
    }

    fn word(&self, at: usize) -> u64 {
        self.get(at).map_or(0, |word| u64::from_le(word.load(Ordering::Acquire)))
    }
}

/// Memory that a [`Writer`](super::Writer) fills. Atomic, because others look on.
pub trait Memory: 'static {
    /// All of it.
    fn words(&self) -> &[AtomicU64];
}

impl Memory for Arc<[AtomicU64]> {
    fn words(&self) -> &[AtomicU64] {
        self
    }
}

/// A copy of such memory as a file would hold it.
pub fn to_bytes(words: &[AtomicU64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.load(Ordering::Acquire).to_ne_bytes()).collect()
}

/// Stores a word that need not be seen yet.
pub(super) fn put(words: &[AtomicU64], at: usize, value: u64) {
    if let Some(word) = words.get(at) {
        word.store(value.to_le(), Ordering::Relaxed);
    }
}

/// Stores a word that makes those stored before it valid.
pub(super) fn commit(words: &[AtomicU64], at: usize, value: u64) {
    if let Some(word) = words.get(at) {
        word.store(value.to_le(), Ordering::Release);
    }
}
