//! The rows of one frontend.

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;

use super::backends::Quarantine;
use crate::{
    model::{BackendId, Frontend, ServiceId},
    mutants::{Mutant, mutated},
    ports::{BackendState, MemberKey, SlotKey, SlotRow, service_flags},
};

/// What a frontend is: all that its rows say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Shape {
    /// The first word of its first slot.
    pub(super) word: u32,
    pub(super) flags: u16,
    /// How many of the backends are used; those behind are quarantined, and used if there is nobody
    /// else.
    pub(super) used: u16,
    /// In the order of their slots, from slot 1 on.
    pub(super) backends: Box<[BackendId]>,
    /// Those that have no slot and keep what they have, each in a state of its own.
    pub(super) retained: Box<[(BackendId, BackendState)]>,
    /// Who may use it; everyone if nobody is named.
    pub(super) ranges: Box<[IpNet]>,
}

impl Shape {
    /// Has it lead to these, of whom some are quarantined. Who has a slot keeps it.
    pub(super) fn lead_to(&mut self, all: &BTreeSet<BackendId>, quarantine: &Quarantine) {
        let used = all.difference(quarantine).copied().collect();
        let used = arrange(&self.backends, &used);
        self.used = u16::try_from(used.len()).unwrap_or(u16::MAX);
        self.backends = used.into_iter().chain(all.intersection(quarantine).copied()).collect();
    }

    /// Everyone who serves it, with how.
    pub(super) fn members(&self) -> impl Iterator<Item = (BackendId, BackendState)> {
        let slots = self.backends.iter().enumerate().map(|(slot, id)| (*id, self.state(slot)));
        slots.chain(self.retained.iter().copied())
    }

    /// How a backend serves it, if it does.
    pub(super) fn member(&self, id: BackendId) -> Option<BackendState> {
        let slot = self.backends.iter().position(|it| *it == id);
        let retained = || self.retained.iter().find(|(it, _)| *it == id).map(|(_, state)| *state);
        slot.map(|slot| self.state(slot)).or_else(retained)
    }

    fn state(&self, slot: usize) -> BackendState {
        if slot < usize::from(self.used) { BackendState::Active } else { BackendState::Quarantined }
    }

    /// How many serve it.
    pub(super) fn members_len(&self) -> usize {
        self.backends.len() + self.retained.len()
    }

    /// The row of slot 0.
    pub(super) fn first(&self, id: ServiceId) -> SlotRow {
        SlotRow {
            word: self.word,
            count: self.used,
            id,
            flags: self.flags,
            quarantined: u16::try_from(self.backends.len()).unwrap_or(u16::MAX) - self.used,
        }
    }

    /// The row of a slot from 1 on.
    pub(super) fn row(&self, id: ServiceId, slot: u16) -> Option<SlotRow> {
        let backend = self.backends.get(usize::from(slot).checked_sub(1)?)?;
        let flags = if slot > self.used { service_flags::QUARANTINED } else { 0 };
        Some(SlotRow { word: backend.0, id, flags, ..SlotRow::default() })
    }

    fn has_affinity(&self) -> bool {
        self.flags & service_flags::AFFINITY != 0
    }

    /// Whether a table of Maglev is looked up.
    pub(super) fn has_table(&self) -> bool {
        self.word >> 24 == 2
    }

    /// Backends that clients may stay with.
    pub(super) fn matches(&self) -> BTreeSet<BackendId> {
        let all = self.backends.iter().filter(|_| self.has_affinity());
        all.copied().collect()
    }

    /// How many rows of affinity it takes, at most.
    pub(super) fn stays(&self) -> usize {
        if self.has_affinity() { self.backends.len() } else { 0 }
    }
}

/// What of a frontend the kernel may have.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum RealisedShape {
    /// Just what is desired.
    Same,
    /// Nothing.
    Nothing,
    /// This.
    Shape(Box<Shape>),
    /// Any of what was written and not confirmed.
    Unsure(Box<Traces>),
}

/// Rows that may be there.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Traces {
    /// The highest slot,
    pub(super) slots: u16,
    /// and how many there are, at most.
    pub(super) rows: u16,
    pub(super) matches: BTreeSet<BackendId>,
    pub(super) members: BTreeSet<BackendId>,
    pub(super) ranges: BTreeSet<IpNet>,
    pub(super) has_table: bool,
}

impl Traces {
    /// These as well.
    pub(super) fn add(&mut self, shape: &Shape) {
        let slots = u16::try_from(shape.backends.len()).unwrap_or(u16::MAX);
        (self.slots, self.rows) = (self.slots.max(slots), self.rows.max(slots));
        self.matches.extend(shape.matches());
        self.members.extend(shape.members().map(|(id, _)| id));
        self.ranges.extend(shape.ranges.iter().copied());
        self.has_table |= shape.has_table();
    }
}

/// Rows to be written and removed, of many frontends.
#[derive(Debug, Default)]
pub(super) struct FrontendRows {
    pub(super) reverse: Vec<(ServiceId, std::net::SocketAddr)>,
    pub(super) members: Vec<(MemberKey, BackendState)>,
    pub(super) matches: Vec<(BackendId, ServiceId)>,
    pub(super) ranges: Vec<(ServiceId, IpNet)>,
    pub(super) tables: Vec<(Frontend, ServiceId, Box<[BackendId]>)>,
    pub(super) slots: Vec<(SlotKey, SlotRow)>,
    pub(super) firsts: Vec<(SlotKey, SlotRow)>,
    pub(super) gone_firsts: Vec<SlotKey>,
    pub(super) gone_slots: Vec<SlotKey>,
    pub(super) gone_ranges: Vec<(ServiceId, IpNet)>,
    pub(super) gone_matches: Vec<(BackendId, ServiceId)>,
    pub(super) gone_members: Vec<(MemberKey, bool)>,
    pub(super) gone_tables: Vec<(ServiceId, bool)>,
    pub(super) gone_reverse: Vec<(ServiceId, bool)>,
}

impl FrontendRows {
    /// Whether a backend serves some service no more that it served.
    pub(super) fn ends_some(&self) -> bool {
        let rests = |(_, state): &(MemberKey, BackendState)| *state == BackendState::Maintenance;
        !self.gone_members.is_empty() || self.members.iter().any(rests)
    }

    /// Adds what leads from what the kernel has of a frontend to what is desired.
    pub(super) fn add(
        &mut self,
        frontend: Frontend,
        id: ServiceId,
        kernel: &RealisedShape,
        desired: Option<&Shape>,
    ) {
        let nothing = Shape::default();
        let (before, unsure) = match kernel {
            RealisedShape::Same => return,
            RealisedShape::Nothing => (None, None),
            RealisedShape::Shape(shape) => (Some(&**shape), None),
            RealisedShape::Unsure(traces) => (None, Some(&**traces)),
        };
        let mut there = Traces::default();
        there.add(before.unwrap_or(&nothing));
        if let Some(traces) = unsure {
            there = traces.clone();
        }
        match desired {
            Some(shape) => self.put(frontend, id, before, shape),
            None => {
                self.gone_firsts.push((frontend, 0));
                self.gone_reverse.push((id, frontend.at.address.is_ipv4()));
            }
        }
        let shape = desired.unwrap_or(&nothing);
        let last = u16::try_from(shape.backends.len()).unwrap_or(u16::MAX);
        self.gone_slots.extend((last + 1..=there.slots).map(|slot| (frontend, slot)));
        let (matches, ranges) = (shape.matches(), &shape.ranges);
        let gone = there.matches.iter().filter(|it| !matches.contains(it));
        self.gone_matches.extend(gone.map(|it| (*it, id)));
        let gone = there.ranges.iter().filter(|it| !ranges.contains(it));
        self.gone_ranges.extend(gone.map(|it| (id, *it)));
        let members: BTreeSet<_> = shape.members().map(|(backend, _)| backend).collect();
        let is_gone = |it: &&BackendId| !members.contains(it) && !mutated(Mutant::MemberStays);
        let gone = there.members.iter().filter(is_gone);
        let is_ipv4 = frontend.at.address.is_ipv4();
        self.gone_members.extend(gone.map(|it| ((id, *it), is_ipv4)));
        if there.has_table && !shape.has_table() {
            self.gone_tables.push((id, frontend.at.address.is_ipv4()));
        }
    }

    /// Adds the rows of a shape that the one before does not have.
    fn put(&mut self, frontend: Frontend, id: ServiceId, before: Option<&Shape>, shape: &Shape) {
        if before.is_none() {
            self.reverse.push((id, frontend.at.socket()));
        }
        let had: BTreeMap<_, _> = before.into_iter().flat_map(Shape::members).collect();
        let members = shape.members().filter(|(it, state)| had.get(it) != Some(state));
        self.members.extend(members.map(|(backend, state)| ((id, backend), state)));
        let had = before.map(Shape::matches).unwrap_or_default();
        let matches = shape.matches().into_iter().filter(|it| !had.contains(it));
        self.matches.extend(matches.map(|backend| (backend, id)));
        let had = before.map(|before| &*before.ranges).unwrap_or_default();
        let ranges = shape.ranges.iter().filter(|it| !had.contains(it));
        self.ranges.extend(ranges.map(|range| (id, *range)));
        let used = |shape: &Shape| shape.backends[..usize::from(shape.used)].to_vec();
        let same_table = |it: &Shape| it.has_table() && used(it) == used(shape);
        if shape.has_table() && !before.is_some_and(same_table) {
            self.tables.push((frontend, id, used(shape).into()));
        }
        for slot in 1..=u16::try_from(shape.backends.len()).unwrap_or(u16::MAX) {
            let row = shape.row(id, slot);
            if let Some(row) = row.filter(|_| before.and_then(|it| it.row(id, slot)) != row) {
                self.slots.push(((frontend, slot), row));
            }
        }
        if before.map(|before| before.first(id)) != Some(shape.first(id)) {
            self.firsts.push(((frontend, 0), shape.first(id)));
        }
    }
}

/// The order of slots for these backends: who has a slot keeps it, who is new takes one that came
/// free, the last ones fill what else is free.
fn arrange(before: &[BackendId], desired: &BTreeSet<BackendId>) -> Box<[BackendId]> {
    let mut retained: BTreeSet<BackendId> = BTreeSet::new();
    let stays = |id: &BackendId, retained: &mut BTreeSet<BackendId>| {
        desired.contains(id) && retained.insert(*id)
    };
    let mut slots: Vec<_> = before
        .iter()
        .take(desired.len())
        .map(|id| stays(id, &mut retained).then_some(*id))
        .collect();
    slots.resize(desired.len(), None);
    let mut new = desired.iter().filter(|id| !retained.contains(id));
    let filled = slots.into_iter().map(|slot| slot.or_else(|| new.next().copied()));
    filled.flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(all: &[u32]) -> Vec<BackendId> {
        all.iter().copied().map(BackendId).collect()
    }

    #[test]
    fn who_has_a_slot_keeps_it() {
        for (before, expected, after) in [
            (&[][..], &[3, 1, 2][..], &[1, 2, 3][..]),
            (&[3, 1, 2], &[1, 2, 3], &[3, 1, 2]),
            (&[3, 1, 2], &[2, 3], &[3, 2]),
            (&[3, 1, 2], &[3, 2, 9], &[3, 9, 2]),
            (&[3, 1, 2], &[7, 8, 9, 10], &[7, 8, 9, 10]),
            // What a broken map says twice gets one slot.
            (&[5, 5, 6], &[5, 6], &[5, 6]),
            (&[1, 2, 3], &[], &[]),
        ] {
            let expected = ids(expected).into_iter().collect();
            assert_eq!(*arrange(&ids(before), &expected), *ids(after), "from {before:?}");
        }
    }
}
