use std::sync::atomic::AtomicU64;

use super::words::{Words, commit, put};

/// How many segments a ring has.
pub(super) const SEGMENTS: usize = 16;
/// Least size of a segment: a few of the longest records.
pub(super) const SEGMENT_WORDS_MIN: usize = 1024;
/// Words of a segment's head: check, turn, number of its first record, one spare.
pub(super) const HEAD_WORDS: usize = 4;

/// A record that is left over from the segment that goes next.
pub(super) const CARRIED: u8 = 1;

/// Which turn of the ring a segment is, and the number of its first record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) turn: u64,
    pub(super) first: u64,
}

impl Head {
    /// Opens the segment: from now on its older records are none.
    pub(super) fn write(self, words: &[AtomicU64], place: usize) {
        commit(words, place, 0);
        put(words, place + 1, self.turn);
        put(words, place + 2, self.first);
        commit(words, place, self.check());
    }

    pub(super) fn read<W: Words + ?Sized>(words: &W, place: usize) -> Option<Self> {
        let head = Self { turn: words.word(place + 1), first: words.word(place + 2) };
        (words.word(place) == head.check()).then_some(head)
    }

    fn check(self) -> u64 {
        mix(mix(!0, self.turn), self.first) | 1
    }
}

/// What stands in a record's first word, besides the check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Label {
    /// Words of its content.
    pub(super) words: u16,
    pub(super) kind: u8,
    pub(super) flags: u8,
}

impl Label {
    fn bits(self) -> u64 {
        u64::from(self.words) << 32 | u64::from(self.kind) << 48 | u64::from(self.flags) << 56
    }

    /// The first word of a record: label and check, which say together that it is whole.
    fn sealed(self, content: &[u8], turn: u64, at: usize) -> u64 {
        let start = mix(mix(turn, at as u64), self.bits());
        let check = (0..content.count()).fold(start, |check, word| mix(check, content.word(word)));
        self.bits() | check >> 32
    }

    /// Writes a record; the commit word comes last.
    pub(super) fn write(self, words: &[AtomicU64], turn: u64, at: usize, content: &[u8]) {
        for (index, word) in content.chunks_exact(8).enumerate() {
            put(words, at + 1 + index, word.word(0));
        }
        commit(words, at, self.sealed(content, turn, at));
    }

    /// The record at that place and its content, if a whole one of that turn is there. The content
    /// is taken before it is checked: a writer may go over the place meanwhile.
    pub(super) fn read<W: Words + ?Sized>(
        words: &W,
        turn: u64,
        at: usize,
    ) -> Option<(Self, Vec<u8>)> {
        let first = words.word(at);
        let label = Self {
            words: (first >> 32) as u16,
            kind: (first >> 48) as u8,
            flags: (first >> 56) as u8,
        };
        let end = at + usize::from(label.words);
        let content: Vec<u8> = (at + 1..=end).flat_map(|at| words.word(at).to_le_bytes()).collect();
        (label.words > 0 && first == label.sealed(&content, turn, at)).then_some((label, content))
    }
}

/// One step of a check: spreads every bit of the word over the upper half.
fn mix(check: u64, word: u64) -> u64 {
    let mixed = (check ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ mixed >> 29
}
