//! Sets of numbers.

use std::collections::BTreeMap;

/// A set of numbers, kept as ranges that do not touch: its size is the number of gaps, not of
/// members, so that a full /16 or a sparse /64 cost the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ranges {
    last_by_first: BTreeMap<u128, u128>,
}

impl Ranges {
    pub(crate) fn contains(&self, n: u128) -> bool {
        self.around(n).is_some()
    }

    /// Adds a number; false if it was there.
    pub(crate) fn insert(&mut self, n: u128) -> bool {
        if self.contains(n) {
            return false;
        }
        let below = n.checked_sub(1).and_then(|below| self.around(below));
        let above = n.checked_add(1).and_then(|above| self.around(above));
        if let Some((first, _)) = above {
            self.last_by_first.remove(&first);
        }
        let first = below.map_or(n, |(first, _)| first);
        let last = above.map_or(n, |(_, last)| last);
        self.last_by_first.insert(first, last);
        true
    }

    /// Takes a number out; false if it was not there.
    pub(crate) fn remove(&mut self, n: u128) -> bool {
        let Some((first, last)) = self.around(n) else { return false };
        self.last_by_first.remove(&first);
        if first < n {
            self.last_by_first.insert(first, n - 1);
        }
        if n < last {
            self.last_by_first.insert(n + 1, last);
        }
        true
    }

    /// The lowest number of `from..=to` that is not in the set.
    pub(crate) fn first_gap(&self, from: u128, to: u128) -> Option<u128> {
        let gap = match self.around(from) {
            Some((_, last)) => last.checked_add(1)?,
            None => from,
        };
        (gap <= to).then_some(gap)
    }

    /// The first number outside the set at or after `next` within `first..=last`, going round.
    pub(crate) fn next_gap(&self, next: u128, first: u128, last: u128) -> Option<u128> {
        let next = if (first..=last).contains(&next) { next } else { first };
        self.first_gap(next, last).or_else(|| self.first_gap(first, last))
    }

    pub(crate) fn highest(&self) -> Option<u128> {
        self.last_by_first.values().next_back().copied()
    }

    fn around(&self, n: u128) -> Option<(u128, u128)> {
        let (&first, &last) = self.last_by_first.range(..=n).next_back()?;
        (n <= last).then_some((first, last))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn behaves_like_a_plain_set(steps in prop::collection::vec((any::<bool>(), 0u128..20), 0..80)) {
            let (mut ranges, mut plain) = (Ranges::default(), BTreeSet::new());
            for (add, n) in steps {
                let (mine, theirs) = if add {
                    (ranges.insert(n), plain.insert(n))
                } else {
                    (ranges.remove(n), plain.remove(&n))
                };
                prop_assert_eq!(mine, theirs);
                for from in 0..20 {
                    prop_assert_eq!(ranges.contains(from), plain.contains(&from));
                    let gap = (from..20).find(|n| !plain.contains(n));
                    prop_assert_eq!(ranges.first_gap(from, 19), gap);
                }
                let touching = ranges.last_by_first.iter().zip(ranges.last_by_first.keys().skip(1));
                prop_assert_eq!(ranges.highest(), plain.last().copied());
                for ((_, last), next) in touching {
                    prop_assert!(last + 1 < *next);
                }
            }
        }
    }

    #[test]
    fn reaches_both_ends_of_the_numbers() {
        let mut ranges = Ranges::default();
        assert!(ranges.insert(u128::MAX) && ranges.insert(0));
        assert_eq!(ranges.next_gap(u128::MAX, 0, u128::MAX), Some(1));
        assert_eq!(ranges.first_gap(u128::MAX, u128::MAX), None);
    }
}
