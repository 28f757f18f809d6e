//! Allocation within one range of identities: it picks free numbers and forgets the longest unused.
//! Who uses which number is in `uses`.

use std::{ops::RangeInclusive, sync::Arc};

use super::{IdentityError, numbered::Numbered, uses::InUse};
use crate::{
    model::{IdentityId, Labels},
    state_directory::NumberedLabels,
};

/// The numbers of one kind of label set. A set keeps its number while it is remembered, used or
/// not, and no number stands for two sets.
#[derive(Clone, Debug)]
pub(super) struct Numbers {
    /// Those that are given to sets here.
    own: RangeInclusive<IdentityId>,
    /// Others that can stand for something: somebody else gives them.
    others: Vec<RangeInclusive<IdentityId>>,
    /// Where the search for a new one begins.
    next: u32,
    numbered: Numbered,
    revision: u64,
    losses: u64,
}

impl Numbers {
    /// The numbers of `own`, which are given to sets here, and those of `others`; those of `known` are
    /// taken. A number out of range, or given twice, is left out.
    pub(super) fn new(
        own: RangeInclusive<IdentityId>,
        others: Vec<RangeInclusive<IdentityId>>,
        known: &[NumberedLabels],
    ) -> Self {
        let mut numbers = Self {
            next: own.start().0,
            own,
            others,
            numbered: Numbered::default(),
            revision: 0,
            losses: 0,
        };
        for NumberedLabels { id, labels } in known {
            let labels = Arc::new(labels.clone());
            if numbers.is_one(*id) && numbers.labels(*id).is_none() {
                numbers.bind(*id, labels);
            }
        }
        numbers
    }

    /// A number of a set.
    pub(super) fn of(&self, labels: &Labels) -> Option<IdentityId> {
        self.numbered.of(labels)
    }

    /// All numbers of a set.
    pub(super) fn all_of(&self, labels: &Labels) -> impl Iterator<Item = IdentityId> {
        self.numbered.all_of(labels)
    }

    pub(super) fn labels(&self, id: IdentityId) -> Option<&Arc<Labels>> {
        self.numbered.labels(id)
    }

    /// Whether the number stands for that set.
    pub(super) fn stands(&self, id: IdentityId, labels: &Labels) -> bool {
        self.numbered.stands(id, labels)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (IdentityId, &Arc<Labels>)> {
        self.numbered.iter()
    }

    /// Counts the changes; equal in a copy that was not changed.
    pub(super) fn revision(&self) -> u64 {
        self.revision
    }

    /// Counts the numbers that ceased to stand for something.
    pub(super) fn losses(&self) -> u64 {
        self.losses
    }

    /// Whether the number can stand for something.
    fn is_one(&self, id: IdentityId) -> bool {
        self.own.contains(&id) || self.others.iter().any(|range| range.contains(&id))
    }

    /// Whether the number is given here and stands for nothing.
    pub(super) fn is_free(&self, id: IdentityId) -> bool {
        self.own.contains(&id) && self.labels(id).is_none()
    }

    /// The set's number: the one it has, the one it had before if that is free, or a new one.
    ///
    /// A set whose number nobody uses goes back to the one it had before: somewhere that one is
    /// still in the kernel.
    pub(super) fn assign(
        &mut self,
        labels: &Arc<Labels>,
        before: Option<IdentityId>,
        in_use: InUse<'_>,
    ) -> Result<IdentityId, IdentityError> {
        if let Some(before) = before.filter(|&id| self.stands(id, labels)) {
            return Ok(before);
        }
        let before = before.filter(|&id| self.is_free(id));
        if let Some(known) = self.of(labels) {
            if before.is_none() || in_use.has(known) {
                return Ok(known);
            }
            self.unbind(known);
        }
        let id = match before.or_else(|| self.fresh()) {
            Some(id) => id,
            None => self.evict(in_use)?,
        };
        self.bind(id, Arc::clone(labels));
        Ok(id)
    }

    /// Gives a set exactly that number, beside others of its numbers that are in use; false if the
    /// number is in use for another set.
    pub(super) fn bind_exactly(
        &mut self,
        labels: &Arc<Labels>,
        id: IdentityId,
        in_use: impl Fn(IdentityId) -> bool,
    ) -> bool {
        let stands = self.stands(id, labels);
        if !stands && (in_use(id) || !self.is_one(id)) {
            return false;
        }
        let others = self.all_of(labels).filter(|&it| it != id);
        let over: Vec<_> = others.filter(|&it| !in_use(it)).collect();
        over.into_iter().for_each(|it| self.unbind(it));
        if !stands {
            self.unbind(id);
            self.bind(id, Arc::clone(labels));
        }
        true
    }

    /// Gives a set one more number, which nobody has.
    pub(super) fn bind_another(
        &mut self,
        labels: &Arc<Labels>,
        in_use: InUse<'_>,
    ) -> Result<IdentityId, IdentityError> {
        let id = match self.fresh() {
            Some(id) => id,
            None => self.evict(in_use)?,
        };
        self.bind(id, Arc::clone(labels));
        Ok(id)
    }

    /// Forgets the longest unused numbers until at most `kept_max` are remembered.
    pub(super) fn forget_surplus(&mut self, kept_max: usize, in_use: InUse<'_>) {
        if self.numbered.len() <= kept_max {
            return;
        }
        let surplus = self.unused(in_use).count().saturating_sub(kept_max);
        let unused: Vec<_> = self.unused(in_use).take(surplus).collect();
        unused.into_iter().for_each(|id| self.unbind(id));
    }

    pub(super) fn to_table(&self) -> Vec<NumberedLabels> {
        self.iter().map(|(id, labels)| row(id, labels)).collect()
    }

    fn fresh(&self) -> Option<IdentityId> {
        let from = |first: u32| self.numbered.free_from(IdentityId(first));
        let free = [self.next, self.own.start().0].into_iter().filter_map(from);
        free.into_iter().find(|id| self.own.contains(id))
    }

    fn evict(&mut self, in_use: InUse<'_>) -> Result<IdentityId, IdentityError> {
        let size = (self.own.end().0 - self.own.start().0) as usize + 1;
        let oldest = self.unused(in_use).find(|id| self.own.contains(id));
        let oldest = oldest.ok_or(IdentityError::Exhausted(size))?;
        self.unbind(oldest);
        Ok(oldest)
    }

    /// Numbers that nobody uses, longest unused first.
    fn unused<'a>(&'a self, in_use: InUse<'a>) -> impl Iterator<Item = IdentityId> + 'a {
        in_use.unused().filter(|id| self.labels(*id).is_some())
    }

    fn bind(&mut self, id: IdentityId, labels: Arc<Labels>) {
        self.revision += 1;
        if self.own.contains(&id) {
            self.next = id.0.saturating_add(1);
        }
        self.numbered.insert(id, labels);
    }

    fn unbind(&mut self, id: IdentityId) {
        self.revision += 1;
        self.losses += 1;
        self.numbered.remove(id);
    }
}

/// How a number and its labels are stored.
pub(super) fn row(id: IdentityId, labels: &Labels) -> NumberedLabels {
    NumberedLabels { id, labels: labels.clone() }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{super::uses::Uses, *};
    use crate::model::Label;

    fn app(name: &str) -> Labels {
        Labels::from_iter([Label::new("k8s", "app", name)])
    }

    /// Numbers 1 to 4, all taken by sets of that name; 3 is used, 4 was given back first.
    fn full() -> (Numbers, Uses) {
        let known: Vec<_> = (1..=4)
            .map(|id| NumberedLabels { id: IdentityId(id), labels: app(&id.to_string()) })
            .collect();
        let mut uses = Uses::all_unused([4, 2, 1, 3].map(IdentityId));
        uses.take(IdentityId(3));
        (numbers(&known), uses)
    }

    /// Numbers 1 to 4 for sets here; 6 to 8 can stand for something, too.
    fn numbers(known: &[NumberedLabels]) -> Numbers {
        Numbers::new(IdentityId(1)..=IdentityId(4), vec![IdentityId(6)..=IdentityId(8)], known)
    }

    fn assign(numbers: &mut Numbers, name: &str, uses: &Uses, spared: &[u32]) -> Option<u32> {
        let spared = spared.iter().copied().map(IdentityId).collect();
        let in_use = InUse { uses, spared: &spared };
        let assigned = numbers.assign(&Arc::new(app(name)), None, in_use);
        assigned.ok().map(|id| id.0)
    }

    #[test]
    fn when_numbers_run_out_the_longest_unused_go_first() {
        let (mut numbers, uses) = full();
        assert_eq!(assign(&mut numbers, "new", &uses, &[]), Some(4));
        assert_eq!(numbers.of(&app("4")), None);
        assert_eq!(assign(&mut numbers, "newer", &uses, &[4]), Some(2));
        assert_eq!(assign(&mut numbers, "none", &uses, &[4, 2, 1]), None);
        assert_eq!(numbers.of(&app("3")), Some(IdentityId(3)));
    }

    #[test]
    fn what_is_remembered_is_bounded_but_not_what_is_used() {
        let (mut numbers, uses) = full();
        let spared = BTreeSet::from([IdentityId(2)]);
        numbers.forget_surplus(1, InUse { uses: &uses, spared: &spared });
        let left: Vec<u32> = numbers.iter().map(|(id, _)| id.0).collect();
        assert_eq!(left, [1, 2, 3]);
    }

    #[test]
    fn freed_numbers_come_last_and_the_walk_goes_round() {
        let known = [NumberedLabels { id: IdentityId(3), labels: app("a") }];
        let mut numbers = numbers(&known);
        let uses = Uses::default();
        assert_eq!(assign(&mut numbers, "b", &uses, &[]), Some(4));
        assert_eq!(assign(&mut numbers, "c", &uses, &[]), Some(1));
    }

    #[test]
    fn numbers_of_others_are_kept_and_never_given_to_new_sets() {
        let (mut numbers, mut uses) = full();
        assert!(numbers.bind_exactly(&Arc::new(app("far")), IdentityId(7), |_| false));
        assert!(!numbers.bind_exactly(&Arc::new(app("no")), IdentityId(9), |_| false));
        uses.take(IdentityId(7));
        uses.give_back(IdentityId(7));
        let all = [4, 2, 1];
        assert_eq!(all.map(|_| assign(&mut numbers, "new", &uses, &[])), [Some(4); 3]);
        assert_eq!(assign(&mut numbers, "newer", &uses, &all), None);
        assert_eq!(numbers.of(&app("far")), Some(IdentityId(7)));
    }

    #[test]
    fn a_table_that_contradicts_itself_gives_no_number_twice() {
        let row = |id, name| NumberedLabels { id: IdentityId(id), labels: app(name) };
        let known = [row(1, "a"), row(1, "b"), row(2, "a"), row(9, "c")];
        let numbers = numbers(&known);
        let all: Vec<_> = numbers.iter().map(|(id, labels)| (id.0, labels.clone())).collect();
        assert_eq!(all, [(1, Arc::new(app("a"))), (2, Arc::new(app("a")))]);
    }

    #[test]
    fn a_set_may_have_several_numbers_in_use() {
        let (mut numbers, _) = full();
        let set = Arc::new(app("3"));
        let in_use = |id: IdentityId| id.0 == 3;
        assert!(!numbers.bind_exactly(&Arc::new(app("4")), IdentityId(3), in_use));
        assert!(numbers.bind_exactly(&set, IdentityId(2), in_use));
        assert_eq!(numbers.all_of(&set).collect::<Vec<_>>(), [3, 2].map(IdentityId));
        assert_eq!(numbers.of(&app("2")), None);
        numbers.unbind(IdentityId(3));
        assert_eq!(numbers.all_of(&set).collect::<Vec<_>>(), [IdentityId(2)]);
        assert!(numbers.is_free(IdentityId(3)));
        // One that is in use stays beside the new one; one that nobody uses goes.
        assert!(numbers.bind_exactly(&set, IdentityId(3), |id| id.0 == 2));
        assert_eq!(numbers.all_of(&set).collect::<Vec<_>>(), [2, 3].map(IdentityId));
        assert!(numbers.bind_exactly(&set, IdentityId(3), |id| id.0 == 3));
        assert_eq!(numbers.all_of(&set).collect::<Vec<_>>(), [IdentityId(3)]);
        numbers.unbind(IdentityId(3));
        assert_eq!(numbers.of(&set), None);
    }
}
