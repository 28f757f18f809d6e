//! The commonest record. Nearly all messages fit four words, told as distances from where their
//! segment began; one that does not takes as many as it has numbers.

use super::segment::Base;
use crate::host::{CellId, EnvelopeId, Header, Outcome, RootId, Time};

/// Words of a message in the wide form.
pub(super) const WIDE: usize = 8;

/// Outcomes by their number in a record.
const OUTCOMES: [Outcome; 5] =
    [Outcome::Handled, Outcome::Crashed, Outcome::Absorbed, Outcome::Refused, Outcome::Discarded];

pub(super) const CELL_BITS: u32 = 24;
pub(super) const TIME_BITS: u32 = 40;
/// Times before the segment's begin are told as well.
pub(super) const TIME_MIDDLE: u64 = 1 << (TIME_BITS - 1);

/// A message's record as numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MessageFields {
    /// Number of the name of its kind.
    pub(super) kind: u16,
    pub(super) id: EnvelopeId,
    pub(super) from: Option<CellId>,
    pub(super) to: CellId,
    pub(super) cause: EnvelopeId,
    pub(super) root: RootId,
    pub(super) enqueued: Time,
    pub(super) started: Time,
    pub(super) ended: Time,
    pub(super) outcome: Outcome,
}

impl MessageFields {
    pub(super) fn of(
        kind: u16,
        header: &Header,
        started: Time,
        ended: Time,
        outcome: Outcome,
    ) -> Self {
        let Header { id, from, to, cause, root, enqueued, .. } = *header;
        Self { kind, id, from, to, cause, root, enqueued, started, ended, outcome }
    }

    /// In four words; `None` if it does not fit.
    pub(super) fn narrow(&self, base: &Base) -> Option<[u64; 4]> {
        let id = self.id.0.wrapping_sub(base.id) as i64;
        let cause = self.id.0.wrapping_sub(self.cause.0);
        let root = self.root.0.wrapping_sub(base.root) as i64;
        let (from, to) = (number(self.from), u64::from(self.to.0));
        let enqueued = self.enqueued.0.wrapping_sub(base.time).wrapping_add(TIME_MIDDLE);
        let (waited, took) = (span(self.enqueued, self.started), span(self.started, self.ended));
        let fits = i64::from(id as i32) == id
            && i64::from(root as i16) == root
            && (cause | waited | took) >> 32 == 0
            && (from | to) >> CELL_BITS == 0
            && enqueued >> TIME_BITS == 0;
        fits.then_some([
            u64::from(id as u32) | cause << 32,
            from | to << CELL_BITS | u64::from(root as u16) << (2 * CELL_BITS),
            enqueued | u64::from(self.outcome as u8) << TIME_BITS | u64::from(self.kind) << 48,
            waited | took << 32,
        ])
    }

    pub(super) fn of_narrow(words: [u64; 4], base: &Base) -> Option<Self> {
        let [first, cells, third, spans] = words;
        let id = base.id.wrapping_add(i64::from(first as u32 as i32) as u64);
        let root = base.root.wrapping_add(i64::from((cells >> (2 * CELL_BITS)) as i16) as u64);
        let cell = |bits: u64| (bits & ((1 << CELL_BITS) - 1)) as u32;
        let enqueued = third & ((1 << TIME_BITS) - 1);
        let enqueued = Time(base.time.wrapping_add(enqueued).wrapping_sub(TIME_MIDDLE));
        let started = Time(enqueued.0.checked_add(spans & u64::from(u32::MAX))?);
        Some(Self {
            kind: (third >> 48) as u16,
            id: EnvelopeId(id),
            from: cell_of(cell(cells)),
            to: CellId(cell(cells >> CELL_BITS)),
            cause: EnvelopeId(id.wrapping_sub(first >> 32)),
            root: RootId(root),
            enqueued,
            started,
            ended: Time(started.0.checked_add(spans >> 32)?),
            outcome: *OUTCOMES.get(usize::from((third >> TIME_BITS) as u8))?,
        })
    }

    pub(super) fn wide(&self) -> [u64; WIDE] {
        [
            self.id.0,
            number(self.from) | u64::from(self.to.0) << 32,
            self.cause.0,
            self.root.0,
            self.enqueued.0,
            self.started.0,
            self.ended.0,
            u64::from(self.outcome as u8) | u64::from(self.kind) << 8,
        ]
    }

    pub(super) fn of_wide(words: [u64; WIDE]) -> Option<Self> {
        let [id, cells, cause, root, enqueued, started, ended, last] = words;
        Some(Self {
            kind: (last >> 8) as u16,
            id: EnvelopeId(id),
            from: cell_of(cells as u32),
            to: CellId((cells >> 32) as u32),
            cause: EnvelopeId(cause),
            root: RootId(root),
            enqueued: Time(enqueued),
            started: Time(started),
            ended: Time(ended),
            outcome: *OUTCOMES.get(usize::from(last as u8))?,
        })
    }
}

/// A cell, or 0 for none: cells are counted from 1.
pub(super) fn number(cell: Option<CellId>) -> u64 {
    cell.map_or(0, |cell| u64::from(cell.0))
}

/// The cell of such a number.
pub(super) fn cell_of(number: u32) -> Option<CellId> {
    (number > 0).then_some(CellId(number))
}

fn span(from: Time, to: Time) -> u64 {
    to.0.saturating_sub(from.0)
}
