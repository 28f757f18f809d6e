//! Decides when a round is due and which families it covers, by time and by signals of full tables.

use std::{mem, time::Duration};

use super::interval;
use crate::{host::Time, model::Families};

/// Signals wait no longer than `MIN` times two to this power after a round, about five minutes.
const VAIN_MAX: u32 = 5;

/// A sweep through tables.
#[derive(Clone, Copy)]
pub(super) struct CollectionRound {
    /// Of which families.
    pub(super) families: Families,
    /// Whether it would not have come yet, had nothing been full.
    pub(super) by_signal: bool,
    /// In which families something was full.
    full: Families,
}

/// When rounds come, and what they are over: one of all families when the interval is over since
/// the last such one, one of those in which something is full at once.
#[derive(Default)]
pub(super) struct Rounds {
    /// Since when all families wait for a round; `None` before there may be any.
    waiting: Option<Time>,
    /// In which something is full, and no round has begun since that was said.
    full: Families,
    /// What the kernel is at.
    current: Option<CollectionRound>,
    /// When the last one ended.
    ended: Option<Time>,
    /// How many in a row were begun by a signal and removed hardly anything: what is full is full of
    /// what lives.
    vain: u32,
}

impl Rounds {
    /// From now on there may be rounds.
    pub(super) fn begin(&mut self, now: Time) {
        self.waiting.get_or_insert(now);
    }

    /// Notes in which families something is full; whether that is a reason for a round which there
    /// was not.
    pub(super) fn note_full(&mut self, families: Families) -> bool {
        let before = self.full;
        self.full = before.union(families);
        self.full != before
    }

    /// When the next round is due; `None` while there is one, and before there may be any.
    pub(super) fn next(&self, interval: Duration, now: Time) -> Option<Time> {
        let regular = self.regular(interval)?;
        if self.current.is_some() {
            return None;
        }
        if self.full == Families::NONE {
            return Some(regular);
        }
        let pause = interval::MIN * 2_u32.saturating_pow(self.vain.min(VAIN_MAX));
        let soonest = self.ended.map_or(now, |ended| now.max(ended + pause));
        Some(soonest.min(regular))
    }

    /// When one of all families is due.
    fn regular(&self, interval: Duration) -> Option<Time> {
        let due = self.waiting? + interval;
        Some(self.ended.map_or(due, |ended| due.max(ended + interval.min(interval::MIN))))
    }

    /// Begins the round that is due, if one is.
    pub(super) fn start(&mut self, interval: Duration, now: Time) -> Option<CollectionRound> {
        self.next(interval, now).filter(|due| *due <= now)?;
        let full = mem::take(&mut self.full);
        let by_signal = self.regular(interval).is_none_or(|regular| now < regular);
        let families = if by_signal { full } else { Families::DUAL };
        self.current = Some(CollectionRound { families, by_signal, full });
        self.current
    }

    /// The round is over: who still finds no room says so again. `freed` says whether it removed more
    /// than hardly anything.
    pub(super) fn end(&mut self, freed: bool, now: Time) {
        let Some(round) = self.current.take() else { return };
        self.ended = Some(now);
        if round.families == Families::DUAL {
            self.waiting = Some(now);
        }
        match round.by_signal && !freed {
            true => self.vain += 1,
            false => self.vain = 0,
        }
    }

    /// Nobody will hear what comes of the round, if there is one: it is due again, and what was full
    /// before it is full.
    pub(super) fn lose(&mut self, now: Time) {
        if let Some(round) = self.current.take() {
            self.ended = Some(now);
            self.note_full(round.full);
        }
    }

    /// Which families the round is over, if there is one.
    pub(super) fn families(&self) -> Option<Families> {
        self.current.map(|round| round.families)
    }

    /// Whether there is a round, over all families.
    pub(super) fn is_over_all(&self) -> bool {
        self.current.is_some_and(|round| round.families == Families::DUAL)
    }
}
