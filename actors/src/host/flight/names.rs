//! The table of names in a ring: a record holds a number in place of a name.

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::AtomicU64},
};

use super::{
    layout::{NAMES, NAMES_USED},
    words::{Words, commit, put},
};

/// Stands for a name for which there was no room.
pub(super) const UNKNOWN: &str = "?";

const NAMES_BYTES: usize = (NAMES.end - NAMES.start) * 8;
const NAME_MAX: usize = 255;
const CACHED: usize = 256;

/// Gives numbers to the names that are known at compile time, and writes each once.
pub(super) struct NameNumbers {
    by_text: BTreeMap<&'static str, u16>,
    /// The same by address, for most are asked for again and again.
    cache: [(usize, usize, u16); CACHED],
    used: usize,
}

impl NameNumbers {
    pub(super) fn new() -> Self {
        Self { by_text: BTreeMap::new(), cache: [(0, 0, 0); CACHED], used: 0 }
    }

    /// A name's number, from 1; 0 if there was no room for it.
    pub(super) fn number(&mut self, words: &[AtomicU64], name: &'static str) -> u16 {
        let (address, len) = (name.as_ptr() as usize, name.len());
        let place = (address ^ (address >> 8) ^ len) % CACHED;
        let (known, known_len, number) = self.cache[place];
        if known == address && known_len == len {
            return number;
        }
        let number = match self.by_text.get(name) {
            Some(number) => *number,
            None => self.add(words, name),
        };
        self.cache[place] = (address, len, number);
        number
    }

    fn add(&mut self, words: &[AtomicU64], name: &'static str) -> u16 {
        let end = self.used + 1 + name.len();
        if name.len() > NAME_MAX || end > NAMES_BYTES {
            self.by_text.insert(name, 0);
            return 0;
        }
        let bytes = [&[name.len() as u8], name.as_bytes()].concat();
        for (at, byte) in (self.used..).zip(bytes) {
            let (place, shift) = (NAMES.start + at / 8, 8 * (at % 8));
            let before = words.word(place) & !(0xff << shift);
            put(words, place, before | u64::from(byte) << shift);
        }
        self.used = end;
        commit(words, NAMES_USED, end as u64);
        // There is room for fewer than that, each taking two bytes at least.
        let number = self.by_text.len() as u16 + 1;
        self.by_text.insert(name, number);
        number
    }
}

/// The names of a ring, by their numbers.
pub(super) struct RingNames<'a, W: ?Sized> {
    words: &'a W,
    names: Vec<Arc<str>>,
}

impl<'a, W: Words + ?Sized> RingNames<'a, W> {
    pub(super) fn read(words: &'a W) -> Self {
        Self { words, names: read(words) }
    }

    pub(super) fn get(&mut self, number: u16) -> Arc<str> {
        let number = usize::from(number);
        if number >= self.names.len() {
            // Added since they were read.
            self.names = read(self.words);
        }
        Arc::clone(self.names.get(number).unwrap_or(&self.names[0]))
    }
}

fn read<W: Words + ?Sized>(words: &W) -> Vec<Arc<str>> {
    let used = usize::try_from(words.word(NAMES_USED)).map_or(0, |used| used.min(NAMES_BYTES));
    let bytes: Vec<u8> = NAMES.flat_map(|at| words.word(at).to_le_bytes()).take(used).collect();
    let mut names = vec![UNKNOWN.into()];
    let mut rest = &bytes[..];
    while let Some((&len, after)) = rest.split_first() {
        let Some(name) = after.get(..usize::from(len)) else { break };
        names.push(String::from_utf8_lossy(name).into());
        rest = &after[usize::from(len)..];
    }
    names
}
