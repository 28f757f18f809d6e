//! Numbers that their endpoints are to leave, because the cluster has another one for their labels,
//! and which number each waits for. It changes only on the way from one numbering to another.

use std::collections::BTreeMap;

use crate::model::IdentityId;

/// From each number that is to be left, the one that its endpoints are to get and that others have.
#[derive(Clone, Debug, Default)]
pub(super) struct Moves(BTreeMap<IdentityId, IdentityId>);

impl Moves {
    /// Endpoints of a number wait for another one.
    pub(super) fn wait(&mut self, from: IdentityId, to: IdentityId) {
        self.0.insert(from, to);
    }

    /// Whether a number can be free only after it is free itself: one of the ring has to go aside.
    pub(super) fn is_in_ring(&self, from: IdentityId) -> bool {
        let mut at = from;
        // A way that leads into another ring has no end either.
        for _ in 0..=self.0.len() {
            match self.0.get(&at) {
                Some(&next) if next == from => return true,
                Some(&next) => at = next,
                None => return false,
            }
        }
        false
    }

    /// Nobody uses a number any more. Whose endpoints waited for that.
    pub(super) fn freed(&mut self, id: IdentityId) -> Vec<IdentityId> {
        self.0.remove(&id);
        self.0.iter().filter(|(_, to)| **to == id).map(|(&from, _)| from).collect()
    }

    /// The labels that have this number are given it: who waited for it has been told.
    pub(super) fn arrived(&mut self, to: IdentityId) {
        self.0.retain(|_, waited| *waited != to);
    }

    /// Forgets numbers that nobody uses. Whose endpoints wait for one of those.
    pub(super) fn over(&mut self, is_used: impl Fn(IdentityId) -> bool) -> Vec<IdentityId> {
        self.0.retain(|&from, _| is_used(from));
        self.0.iter().filter(|(_, to)| !is_used(**to)).map(|(&from, _)| from).collect()
    }

    pub(super) fn all(&self) -> &BTreeMap<IdentityId, IdentityId> {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_are_told_from_ways_that_end_and_from_ways_into_rings() {
        let id = IdentityId;
        let mut moves = Moves::default();
        moves.wait(id(1), id(2));
        moves.wait(id(2), id(3));
        assert!(!moves.is_in_ring(id(1)));
        moves.wait(id(3), id(2));
        let in_ring = [1, 2, 3, 4].map(|it| moves.is_in_ring(id(it)));
        assert_eq!(in_ring, [false, true, true, false]);
        assert_eq!(moves.freed(id(2)), [id(1), id(3)]);
        assert_eq!(moves.freed(id(2)), [id(1), id(3)], "they wait until they have it");
        assert_eq!(moves.freed(id(3)), []);
        assert_eq!(moves.freed(id(1)), []);
        assert!(moves.all().is_empty());
    }
}
