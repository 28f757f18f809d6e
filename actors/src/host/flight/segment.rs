//! The head of a segment and the label of a record, with the checks that find damaged ones.

use std::sync::atomic::{AtomicU64, Ordering};

use super::words::{Words, commit, put};

/// How many segments a ring has.
pub(super) const SEGMENTS: usize = 16;
/// Least size of a segment: a few of the longest records.
pub(super) const SEGMENT_WORDS_MIN: usize = 1024;
/// Words of a segment's head: check, turn, number of its first record, and the base.
pub(super) const HEAD_WORDS: usize = 6;

/// A record that is left over from the segment that goes next.
pub(super) const CARRIED: u8 = 1;

/// Odd, its bits spread evenly: 2^64 divided by the golden ratio.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// What the messages of a segment are told as distances from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Base {
    pub(super) id: u64,
    pub(super) root: u64,
    pub(super) time: u64,
}

/// Which turn of the ring a segment is, and the number of its first record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) turn: u64,
    pub(super) first: u64,
    pub(super) base: Base,
}

impl Head {
    /// Opens the segment: from now on its older records are none.
    pub(super) fn write(self, words: &[AtomicU64], place: usize) {
        commit(words, place, 0);
        (place + 1..).zip(self.numbers()).for_each(|(at, number)| put(words, at, number));
        commit(words, place, self.check());
    }

    pub(super) fn read<W: Words + ?Sized>(words: &W, place: usize) -> Option<Self> {
        let [turn, first, id, root, time] =
            std::array::from_fn(|index| words.word(place + 1 + index));
        let head = Self { turn, first, base: Base { id, root, time } };
        (words.word(place) == head.check()).then_some(head)
    }

    fn numbers(self) -> [u64; HEAD_WORDS - 1] {
        [self.turn, self.first, self.base.id, self.base.root, self.base.time]
    }

    fn check(self) -> u64 {
        self.numbers().into_iter().fold(!0, mix) | 1
    }

    /// What the checks of this segment's records begin with.
    pub(super) fn salt(self) -> u64 {
        mix(self.turn, SPREAD)
    }
}

/// What stands in a record's first word, besides the check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RecordHeader {
    /// Words of its content.
    pub(super) words: u16,
    pub(super) kind: u8,
    pub(super) flags: u8,
}

impl RecordHeader {
    fn bits(self) -> u64 {
        u64::from(self.words) << 32 | u64::from(self.kind) << 48 | u64::from(self.flags) << 56
    }

    /// The first word of a record: label and check, which say together that it is whole.
    fn sealed(self, salt: u64, at: usize, sum: u64) -> u64 {
        self.bits() | mix(mix(salt ^ at as u64, self.bits()), sum) >> 32
    }

    /// Writes a record; the commit word comes last.
    pub(super) fn write(self, words: &[AtomicU64], salt: u64, at: usize, content: &[u64]) {
        let places = words.get(at..=at + content.len()).and_then(|places| places.split_first());
        let Some((first, places)) = places else { return };
        let mut sum = 0;
        let mut factor = SPREAD;
        for (place, word) in places.iter().zip(content) {
            place.store(word.to_le(), Ordering::Relaxed);
            sum = add(sum, *word, &mut factor);
        }
        first.store(self.sealed(salt, at, sum).to_le(), Ordering::Release);
    }

    /// What the first word of a record says, whether that is whole or not.
    pub(super) fn peek<W: Words + ?Sized>(words: &W, at: usize) -> Self {
        let first = words.word(at);
        Self { words: (first >> 32) as u16, kind: (first >> 48) as u8, flags: (first >> 56) as u8 }
    }

    /// The record at that place and its content, if a whole one of that turn is there. The content
    /// is taken before it is checked: a writer may go over the place meanwhile.
    pub(super) fn read<W: Words + ?Sized>(
        words: &W,
        salt: u64,
        at: usize,
    ) -> Option<(Self, Vec<u64>)> {
        let (first, label) = (words.word(at), Self::peek(words, at));
        let end = at + usize::from(label.words);
        let content: Vec<u64> = (at + 1..=end).map(|at| words.word(at)).collect();
        let mut factor = SPREAD;
        let sum = content.iter().fold(0, |sum, word| add(sum, *word, &mut factor));
        (label.words > 0 && first == label.sealed(salt, at, sum)).then_some((label, content))
    }
}

/// Takes a word into a sum. The factors are odd and differ from place to place, and no step waits
/// for the product of the one before.
fn add(sum: u64, word: u64, factor: &mut u64) -> u64 {
    let product = word.wrapping_mul(*factor);
    *factor = factor.wrapping_add(2);
    sum.wrapping_add(product)
}

/// One step of a check: spreads every bit of the word over the upper half.
fn mix(check: u64, word: u64) -> u64 {
    let mixed = (check ^ word).wrapping_mul(SPREAD);
    mixed ^ mixed >> 29
}
