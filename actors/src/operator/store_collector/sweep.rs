//! One round over the kvstore: what is read of it, and what follows from that.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
};

use crate::{
    cluster::kvstore::{IDENTITIES, IDENTITY_LOCKS, IDENTITY_USERS},
    mutants::{Mutant, mutated},
    ports::{Condition, ListPosition, Listing, Transaction},
};

/// An identity that nobody uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UnusedIdentity {
    /// Where its number stands.
    pub(super) key: String,
    /// Its labels, as they stand there.
    pub(super) labels: String,
}

/// A round.
#[derive(Debug, Default)]
pub(super) struct StoreSweep {
    step: SweepStep,
    /// What each number stands for, and where.
    numbers: BTreeMap<u64, UnusedIdentity>,
    /// Labels that nodes use.
    used: BTreeSet<String>,
}

/// What is read next, and from which place on.
#[derive(Debug)]
enum SweepStep {
    Numbers(Option<ListPosition>),
    /// Read later, so that no new number is taken for one that nobody uses.
    Users(Option<ListPosition>),
    Read,
}

/// Identities that nobody used in the last round, by number.
#[derive(Debug, Default)]
pub(super) struct UnusedMarks(BTreeMap<u64, UnusedIdentity>);

impl Default for SweepStep {
    fn default() -> Self {
        Self::Numbers(None)
    }
}

impl StoreSweep {
    /// What is asked for next, if not all was read.
    pub(super) fn question(&self) -> Option<(&'static str, Option<ListPosition>)> {
        match &self.step {
            SweepStep::Numbers(from) => Some((IDENTITIES, from.clone())),
            SweepStep::Users(from) => Some((IDENTITY_USERS, from.clone())),
            SweepStep::Read => None,
        }
    }

    /// Takes in a part of a list.
    pub(super) fn read(&mut self, part: Listing) {
        let Listing { pairs, next, .. } = part;
        self.step = match &self.step {
            SweepStep::Numbers(_) => {
                // What is no number, or has no text, is nothing of ours and stays.
                self.numbers.extend(pairs.into_iter().filter_map(|pair| {
                    let number = pair.key.strip_prefix(IDENTITIES)?.parse().ok()?;
                    let labels = String::from_utf8(pair.value).ok()?;
                    Some((number, UnusedIdentity { key: pair.key, labels }))
                }));
                next.map_or(SweepStep::Users(None), |next| SweepStep::Numbers(Some(next)))
            }
            SweepStep::Users(_) => {
                // Behind the last slash stands the node. Labels may have slashes, too.
                self.used.extend(pairs.iter().filter_map(|pair| {
                    let (labels, _) = pair.key.strip_prefix(IDENTITY_USERS)?.rsplit_once('/')?;
                    Some(labels.to_owned())
                }));
                next.map_or(SweepStep::Read, |next| SweepStep::Users(Some(next)))
            }
            SweepStep::Read => SweepStep::Read,
        };
    }

    /// How many numbers there are.
    pub(super) fn known(&self) -> usize {
        self.numbers.len()
    }
}

impl UnusedMarks {
    /// Nothing is known of earlier rounds any more.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// A round ended, in which everything was read; `alive` are numbers that CiliumEndpoints have. What
    /// nobody used in this round and in the one before is to go.
    pub(super) fn after(
        &mut self,
        sweep: StoreSweep,
        alive: &BTreeSet<u64>,
    ) -> Vec<UnusedIdentity> {
        let StoreSweep { numbers, used, .. } = sweep;
        let before = mem::take(&mut self.0);
        let is_unused = |(number, it): &(u64, UnusedIdentity)| {
            !used.contains(&it.labels) && !alive.contains(number)
        };
        self.0 = numbers.into_iter().filter(is_unused).collect();
        let is_old = |number: &u64, it: &UnusedIdentity| {
            before.get(number) == Some(it) || mutated(Mutant::StoredIdentityUnmarked)
        };
        let old = self.0.iter().filter(|(number, it)| is_old(number, it));
        old.map(|(_, it)| it.clone()).collect()
    }
}

impl UnusedIdentity {
    /// Removes it, if it still is unused, from the store that has that heartbeat.
    pub(super) fn removal(&self, heartbeat: Condition) -> Transaction {
        let Self { key, labels } = self;
        let mut when = vec![Condition::ValueIs(key.clone(), labels.clone().into_bytes())];
        if !mutated(Mutant::StoredIdentityUnguarded) {
            when.push(Condition::NoneBelow(format!("{IDENTITY_USERS}{labels}/")));
            when.push(Condition::NoneBelow(format!("{IDENTITY_LOCKS}{labels}")));
        }
        if !mutated(Mutant::StoredIdentityUnchained) {
            when.push(heartbeat);
        }
        Transaction { when, puts: Vec::new(), deletes: vec![key.clone()] }
    }
}
