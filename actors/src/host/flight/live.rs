//! Decides which old records are still needed, so that they are carried over before they go.

use std::collections::{BTreeMap, BTreeSet};

use super::encode::RecordKind;
use crate::host::{CellId, KernelStep, Record, RootId, WaitId};

/// Cells whose latest states are kept side by side.
const GROUP: usize = 64;

/// What of earlier segments is still needed.
#[derive(Default)]
pub(super) struct Live {
    /// Cells that are no more, and the turn in which they stopped: what they did is there yet.
    stopped: BTreeMap<CellId, u64>,
    states: States,
    /// Waits that last.
    waits: BTreeSet<WaitId>,
    /// Roots that began in an earlier turn, and the turn in which they last led to something.
    roots: BTreeMap<RootId, u64>,
    /// The one that was found among them last, in this turn.
    used_last: RootId,
    /// Roots from this on began in the current turn.
    turn_first_root: RootId,
    latest_root: RootId,
}

impl Live {
    /// Takes note of a record, other than a message, that is written in that turn.
    pub(super) fn note(&mut self, record: &Record<'_>, seq: u64, turn: u64) {
        match *record {
            Record::Root { root, .. } => self.latest_root = self.latest_root.max(root),
            Record::Kernel(KernelStep { root, .. }) => self.used(root, turn),
            Record::State { cell, .. } => self.states.set(cell, seq),
            Record::WaitBegan { wait } | Record::WaitLasts { wait } => {
                self.waits.insert(wait.id);
            }
            Record::WaitEnded { wait, .. } => drop(self.waits.remove(&wait.id)),
            Record::Stopped { cell, .. } => drop(self.stopped.insert(cell, turn)),
            _ => {}
        }
    }

    /// A root led to something in that turn.
    pub(super) fn used(&mut self, root: RootId, turn: u64) {
        if root < self.turn_first_root && root != self.used_last {
            self.roots.insert(root, turn);
            self.used_last = root;
        }
    }

    /// A turn begins; records up to those of turn `old` are then only there if carried over.
    pub(super) fn turn(&mut self, old: u64) {
        self.turn_first_root = RootId(self.latest_root.0 + 1);
        self.used_last = RootId::default();
        self.roots.retain(|_, used| *used > old);
    }

    /// Whether a record of turn `old`, about that subject, is still needed.
    pub(super) fn needs(&mut self, kind: RecordKind, subject: u64, seq: u64, old: u64) -> bool {
        match kind {
            // Timers that began with the start go on for ever.
            RecordKind::Root => subject <= 1 || self.roots.contains_key(&RootId(subject)),
            RecordKind::Spawned => self.lives(subject, old),
            RecordKind::State => {
                let latest = cell(subject).is_some_and(|it| self.states.get(it) == seq);
                latest && self.lives(subject, old)
            }
            RecordKind::WaitBegan => self.waits.contains(&WaitId(subject)),
            _ => false,
        }
    }

    /// Forgets the cells that stopped up to turn `old`, whose records have been looked at.
    pub(super) fn forget(&mut self, old: u64) {
        let (states, stopped) = (&mut self.states, &mut self.stopped);
        stopped.retain(|cell, turn| {
            let keep = *turn > old;
            if !keep {
                states.set(*cell, 0);
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

/// The record of each cell's latest state, by the cell's number; 0 is none. Cells are numbered one
/// after the other and most that live are old or young together, so that groups come and go.
#[derive(Default)]
struct States(Vec<Option<Box<[u64; GROUP]>>>);

impl States {
    fn set(&mut self, CellId(cell): CellId, seq: u64) {
        let (group, place) = (cell as usize / GROUP, cell as usize % GROUP);
        if group >= self.0.len() {
            self.0.resize_with(group + 1, || None);
        }
        let seqs = self.0[group].get_or_insert_with(|| Box::new([0; GROUP]));
        seqs[place] = seq;
        if seq == 0 && seqs.iter().all(|seq| *seq == 0) {
            self.0[group] = None;
        }
    }

    fn get(&self, CellId(cell): CellId) -> u64 {
        let group = self.0.get(cell as usize / GROUP).and_then(Option::as_deref);
        group.map_or(0, |seqs| seqs[cell as usize % GROUP])
    }
}
