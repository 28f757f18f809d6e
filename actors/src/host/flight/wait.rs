//! A wait as it begins, and as it is over: then nearly all fit four words, told as distances from
//! where their segment began.

use super::{
    message::{CELL_BITS, TIME_BITS, TIME_MIDDLE, cell_of, number},
    segment::Base,
};
use crate::host::{CellId, Time, WaitId};

/// Words of a wait that begins.
pub(super) const BEGAN: usize = 5;
/// Words of one that is over, in the narrow and the wide form.
const OVER: usize = 4;
pub(super) const OVER_WIDE: usize = 6;

/// Flags in the narrow form.
const PORT: u64 = 1;
const ANSWERED: u64 = 2;

/// A wait's record as numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WaitFields {
    pub(super) wait: WaitId,
    pub(super) who: Option<CellId>,
    pub(super) whom: EncodedWhom,
    /// Number of its reason's name; 0 if that is a text of its own.
    pub(super) why: u16,
    pub(super) since: Time,
    pub(super) until: Time,
}

/// An actor, or the number of a port's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EncodedWhom {
    Cell(CellId),
    Port(u16),
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WaitEnd {
    pub(super) at: Time,
    pub(super) answered: bool,
}

impl WaitFields {
    pub(super) fn began(&self) -> [u64; BEGAN] {
        let (cell, port) = match self.whom {
            EncodedWhom::Cell(cell) => (u64::from(cell.0), 0),
            EncodedWhom::Port(port) => (0, u64::from(port)),
        };
        let cells = number(self.who) | cell << 32;
        [self.wait.0, cells, port | u64::from(self.why) << 16, self.since.0, self.until.0]
    }

    pub(super) fn of_began([wait, cells, names, since, until]: [u64; BEGAN]) -> Self {
        let whom = match cell_of((cells >> 32) as u32) {
            Some(cell) => EncodedWhom::Cell(cell),
            None => EncodedWhom::Port(names as u16),
        };
        Self {
            wait: WaitId(wait),
            who: cell_of(cells as u32),
            whom,
            why: (names >> 16) as u16,
            since: Time(since),
            until: Time(until),
        }
    }

    /// It is over, in four words; `None` if it does not fit.
    pub(super) fn narrow(&self, end: WaitEnd, base: &Base) -> Option<[u64; OVER]> {
        let (whom, port) = match self.whom {
            EncodedWhom::Cell(cell) => (u64::from(cell.0), 0),
            EncodedWhom::Port(port) => (u64::from(port), PORT),
        };
        let flags = port | if end.answered { ANSWERED } else { 0 };
        let who = number(self.who);
        let ended = end.at.0.wrapping_sub(base.time).wrapping_add(TIME_MIDDLE);
        let patience = self.until.0.wrapping_sub(self.since.0);
        let fits =
            (self.wait.0 | ended | patience) >> TIME_BITS == 0 && (who | whom) >> CELL_BITS == 0;
        fits.then_some([
            self.wait.0 | u64::from(self.why) << TIME_BITS | flags << 56,
            who | whom << CELL_BITS | patience << (2 * CELL_BITS),
            ended | patience >> 16 << TIME_BITS,
            end.at.0.wrapping_sub(self.since.0),
        ])
    }

    pub(super) fn of_narrow(words: [u64; OVER], base: &Base) -> (Self, WaitEnd) {
        let [first, cells, third, took] = words;
        let time = |bits: u64| bits & ((1 << TIME_BITS) - 1);
        let cell = |bits: u64| (bits & ((1 << CELL_BITS) - 1)) as u32;
        let flags = first >> 56;
        let whom = cell(cells >> CELL_BITS);
        let whom = match flags & PORT {
            0 => EncodedWhom::Cell(CellId(whom)),
            _ => EncodedWhom::Port(whom as u16),
        };
        let ended = base.time.wrapping_add(time(third)).wrapping_sub(TIME_MIDDLE);
        let since = ended.wrapping_sub(took);
        let patience = cells >> (2 * CELL_BITS) | third >> TIME_BITS << 16;
        let fields = Self {
            wait: WaitId(time(first)),
            who: cell_of(cell(cells)),
            whom,
            why: (first >> TIME_BITS) as u16,
            since: Time(since),
            until: Time(since.wrapping_add(patience)),
        };
        (fields, WaitEnd { at: Time(ended), answered: flags & ANSWERED != 0 })
    }

    pub(super) fn wide(&self, end: WaitEnd) -> [u64; OVER_WIDE] {
        let [wait, cells, names, since, until] = self.began();
        [wait, cells, names | u64::from(end.answered) << 32, since, until, end.at.0]
    }

    pub(super) fn of_wide(words: [u64; OVER_WIDE]) -> (Self, WaitEnd) {
        let [wait, cells, names, since, until, at] = words;
        let end = WaitEnd { at: Time(at), answered: names >> 32 & 1 == 1 };
        (Self::of_began([wait, cells, names, since, until]), end)
    }
}
