//! Allocation of endpoint numbers: which are taken, and which comes next.

use std::collections::BTreeSet;

use crate::{
    model::{EndpointId, POOL_MAX},
    mutants::{Mutant, mutated},
};

/// Numbers of endpoints: 1 to [`POOL_MAX`] for new ones, larger ones if they were restored.
#[derive(Debug, Default)]
pub(super) struct EndpointNumbers {
    used: BTreeSet<EndpointId>,
    last: u16,
}

impl EndpointNumbers {
    /// Takes that very number; false if it is taken.
    pub(super) fn take(&mut self, id: EndpointId) -> bool {
        self.used.insert(id)
    }

    /// Takes the number of a restored endpoint; new ones go on behind it.
    pub(super) fn take_restored(&mut self, id: EndpointId) -> bool {
        if id.0 <= POOL_MAX {
            self.last = self.last.max(id.0);
        }
        self.take(id)
    }

    /// Takes the next free number after the last one handed out: a freed one comes back last.
    pub(super) fn next(&mut self) -> Option<EndpointId> {
        let last = if mutated(Mutant::EndpointIdReusedAtOnce) { 0 } else { self.last };
        let after = (last + 1..=POOL_MAX).chain(1..=last);
        let id = after.map(EndpointId).find(|id| !self.used.contains(id))?;
        self.used.insert(id);
        self.last = id.0;
        Some(id)
    }

    /// All that are taken.
    pub(super) fn taken(&self) -> &BTreeSet<EndpointId> {
        &self.used
    }

    pub(super) fn free(&mut self, id: EndpointId) {
        self.used.remove(&id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_freed_number_comes_back_last() {
        let mut numbers = EndpointNumbers::default();
        assert!(numbers.take(EndpointId(2)));
        assert!(!numbers.take(EndpointId(2)));
        assert_eq!(numbers.next(), Some(EndpointId(1)));
        numbers.free(EndpointId(1));
        let rest: Vec<u16> = std::iter::from_fn(|| numbers.next()).map(|id| id.0).collect();
        assert_eq!(rest.len(), usize::from(POOL_MAX) - 1);
        assert_eq!(rest.last(), Some(&1));
        assert_eq!(numbers.next(), None);
    }

    #[test]
    fn a_restored_number_beyond_the_pool_is_kept() {
        let mut numbers = EndpointNumbers::default();
        assert!(numbers.take(EndpointId(60_000)));
        assert!(!numbers.take(EndpointId(60_000)));
    }
}
