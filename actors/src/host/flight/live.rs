use std::collections::{BTreeMap, VecDeque};

use super::encode::Kind;
use crate::host::{CellId, Record, RootId, WaitId};

/// What of earlier segments is still needed.
#[derive(Default)]
pub(super) struct Live {
    /// Cells that are no more, and the turn in which they stopped: what they did is there yet.
    stopped: BTreeMap<CellId, u64>,
    /// The record of each cell's latest state.
    states: BTreeMap<CellId, u64>,
    waits: OpenWaits,
    /// Roots that began in an earlier turn, and the turn in which they last led to something.
    roots: BTreeMap<RootId, u64>,
    /// Roots from this on began in the current turn.
    turn_first_root: RootId,
    latest_root: RootId,
}

impl Live {
    /// Takes note of a record that is written in that turn.
    pub(super) fn note(&mut self, record: &Record<'_>, seq: u64, turn: u64) {
        match *record {
            Record::Root { root, .. } => self.latest_root = self.latest_root.max(root),
            Record::Message { header, .. } => self.used(header.root, turn),
            Record::Kernel { root, .. } => self.used(root, turn),
            Record::State { cell, .. } => drop(self.states.insert(cell, seq)),
            Record::WaitBegan { wait } => self.waits.open(wait.id),
            Record::WaitEnded { wait, .. } => self.waits.close(wait.id),
            Record::Stopped { cell, .. } => drop(self.stopped.insert(cell, turn)),
            _ => {}
        }
    }

    fn used(&mut self, root: RootId, turn: u64) {
        if root < self.turn_first_root {
            self.roots.insert(root, turn);
        }
    }

    /// A turn begins; records up to those of turn `old` are then only there if carried over.
    pub(super) fn turn(&mut self, old: u64) {
        self.turn_first_root = RootId(self.latest_root.0 + 1);
        self.roots.retain(|_, used| *used > old);
    }

    /// Whether a record of turn `old`, about that subject, is still needed.
    pub(super) fn needs(&mut self, kind: Kind, subject: u64, seq: u64, old: u64) -> bool {
        match kind {
            // Timers that began with the start go on for ever.
            Kind::Root => subject <= 1 || self.roots.contains_key(&RootId(subject)),
            Kind::Spawned => self.lives(subject, old),
            Kind::State => {
                let latest = cell(subject).is_some_and(|it| self.states.get(&it) == Some(&seq));
                latest && self.lives(subject, old)
            }
            Kind::WaitBegan => self.waits.is_open(WaitId(subject)),
            _ => false,
        }
    }

    /// Forgets the cells that stopped up to turn `old`, whose records have been looked at.
    pub(super) fn forget(&mut self, old: u64) {
        let (states, stopped) = (&mut self.states, &mut self.stopped);
        stopped.retain(|cell, turn| {
            let keep = *turn > old;
            if !keep {
                states.remove(cell);
            }
            keep
        });
    }

    fn lives(&self, subject: u64, old: u64) -> bool {
        cell(subject).is_some_and(|it| self.stopped.get(&it).is_none_or(|turn| *turn > old))
    }
}

fn cell(subject: u64) -> Option<CellId> {
    u32::try_from(subject).ok().map(CellId)
}

/// Which waits are open: a bit for each since the oldest open one, for they are many and short.
#[derive(Default)]
struct OpenWaits {
    base: u64,
    words: VecDeque<u64>,
}

impl OpenWaits {
    fn open(&mut self, WaitId(wait): WaitId) {
        if self.words.is_empty() {
            self.base = wait & !63;
        }
        let Some(offset) = wait.checked_sub(self.base) else { return };
        let word = (offset / 64) as usize;
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= 1 << (offset % 64);
    }

    fn close(&mut self, WaitId(wait): WaitId) {
        let Some(offset) = wait.checked_sub(self.base) else { return };
        if let Some(word) = self.words.get_mut((offset / 64) as usize) {
            *word &= !(1 << (offset % 64));
        }
        while self.words.len() > 1 && self.words.front() == Some(&0) {
            self.words.pop_front();
            self.base += 64;
        }
    }

    fn is_open(&self, WaitId(wait): WaitId) -> bool {
        let offset = wait.checked_sub(self.base);
        let word = offset.and_then(|offset| self.words.get((offset / 64) as usize));
        word.is_some_and(|word| word >> (wait % 64) & 1 == 1)
    }
}
