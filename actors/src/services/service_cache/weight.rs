//! How much of the kernel's maps something takes.

use crate::model::Frontend;

/// How many rows something takes in the kernel's maps; where there is a map for each family, those
/// of IPv6 stand first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Weight {
    pub(super) slots: [usize; 2],
    pub(super) ranges: [usize; 2],
    pub(super) matches: usize,
    pub(super) members: [usize; 2],
    /// In the maps of reverse translation,
    pub(super) frontends: [usize; 2],
    /// and of Maglev.
    pub(super) tables: [usize; 2],
}

impl Weight {
    /// What a frontend takes with so many backends, ranges and rows of affinity.
    pub(super) fn of(at: &Frontend, backends: usize, ranges: usize, matches: usize) -> Self {
        let mut weight = Self { matches, ..Self::default() };
        let family = usize::from(at.at.address.is_ipv4());
        (weight.slots[family], weight.ranges[family]) = (backends + 1, ranges);
        weight.members[family] = backends;
        weight.frontends[family] = 1;
        weight
    }

    /// Adds what something takes more than it took.
    pub(super) fn add_growth(&mut self, now: Self, before: Self) {
        for (own, (now, before)) in self.each_mut().into_iter().zip(now.each().zip(before.each())) {
            *own += now.saturating_sub(before);
        }
    }

    fn each_mut(&mut self) -> [&mut usize; 11] {
        let Self { slots, ranges, matches, members, frontends, tables } = self;
        let ([a, b], [c, d], [e, f], [g, h]) = (slots, ranges, frontends, tables);
        let [i, j] = members;
        [a, b, c, d, e, f, g, h, i, j, matches]
    }

    fn each(mut self) -> impl Iterator<Item = usize> {
        self.each_mut().map(|one| *one).into_iter()
    }

    pub(super) fn most(self, other: Self) -> Self {
        let mut most = self;
        most.add_growth(other, self);
        most
    }

    pub(super) fn exchange(&mut self, before: Self, now: Self) {
        for (own, (now, before)) in self.each_mut().into_iter().zip(now.each().zip(before.each())) {
            *own = *own + now - before;
        }
    }
}
