//! A map that gives back the memory of half-empty tree nodes, for large tables of services.

use std::{collections::BTreeMap, mem, ops::Deref, ops::DerefMut};

/// Growth after which a map is packed again: by a quarter, and that many.
const GROWTH: (usize, usize) = (4, 256);

/// A map that can be packed. Nodes of one that grew are half empty, which for tens of thousands of
/// services is megabytes.
#[derive(Debug)]
pub(super) struct Dense<K, V> {
    map: BTreeMap<K, V>,
    /// How many there were when it was packed last.
    packed: usize,
}

impl<K: Ord, V> Dense<K, V> {
    /// Fills its nodes, if it grew much since the last time. Takes as long as going through it.
    pub(super) fn pack(&mut self) {
        let (share, least) = GROWTH;
        if self.map.len() < self.packed + self.packed / share + least {
            return;
        }
        // Joining two maps builds a third of full nodes, and lets go of theirs on the way.
        let Some(last) = self.map.pop_last() else { return };
        let rest = mem::replace(&mut self.map, BTreeMap::from([last]));
        self.map.append(&mut { rest });
        self.packed = self.map.len();
    }
}

impl<K, V> Default for Dense<K, V> {
    fn default() -> Self {
        Self { map: BTreeMap::new(), packed: 0 }
    }
}

impl<K, V> Deref for Dense<K, V> {
    type Target = BTreeMap<K, V>;

    fn deref(&self) -> &Self::Target {
        &self.map
    }
}

impl<K, V> DerefMut for Dense<K, V> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.map
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packing_changes_nothing_but_how_it_lies() {
        let mut dense = Dense::default();
        for number in 0..5000_u32 {
            dense.insert(number.wrapping_mul(2_654_435_761), number);
            dense.pack();
        }
        assert!(dense.packed > 3500 && dense.len() == 5000);
        let all = (0..5000).map(|number: u32| (number.wrapping_mul(2_654_435_761), number));
        assert_eq!(*dense, all.collect::<BTreeMap<_, _>>());
    }
}
