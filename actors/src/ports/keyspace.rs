//! Keys, revisions and leases, shared by the store in a file and the store in memory.
//! It knows no clock of its own: callers pass the time.

use std::{collections::BTreeMap, time::Duration};

use super::{Change, Condition, LeaseId, Listing, Pair, Put, Revision, StoreHeader, Transaction};
use crate::host::Time;

/// The keys of a store, with their leases: what stores that are no server have in common.
#[derive(Clone, Debug, Default)]
pub struct Keyspace {
    keys: BTreeMap<String, (Vec<u8>, Option<LeaseId>)>,
    revision: Revision,
    leases: BTreeMap<LeaseId, Lease>,
    granted: i64,
}

#[derive(Clone, Debug)]
struct Lease {
    ttl: Duration,
    ends: Time,
}

/// A write is bound to a lease that there is not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("requested lease not found: {lease}")]
pub struct LeaseLost {
    /// What was to be written.
    pub key: String,
    /// The lease.
    pub lease: LeaseId,
}

impl Keyspace {
    /// The state that the keys are in.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// Takes in what was kept of an earlier run, in which it had come to that revision: keys with
    /// their leases, and the leases, each of which lasts its whole time again.
    pub fn revive(
        &mut self,
        revision: Revision,
        keys: impl IntoIterator<Item = (Pair, Option<LeaseId>)>,
        leases: impl IntoIterator<Item = (LeaseId, Duration)>,
        now: Time,
    ) {
        self.revision = revision;
        self.keys.extend(keys.into_iter().map(|(pair, lease)| (pair.key, (pair.value, lease))));
        for (id, ttl) in leases {
            self.granted = self.granted.max(id.0);
            self.leases.insert(id, Lease { ttl, ends: now + ttl });
        }
    }

    /// The same keys as one who was restored from a snapshot has them: its first revision, and no
    /// leases, nor what was bound to them.
    pub fn restored(&self) -> Self {
        let left = self.keys.iter().filter(|(_, (_, lease))| lease.is_none());
        let keys = left.map(|(key, retained)| (key.clone(), retained.clone())).collect();
        Self { keys, revision: Revision(1), leases: BTreeMap::new(), granted: self.granted }
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&[u8]> {
        self.keys.get(key).map(|(value, _)| value.as_slice())
    }

    /// Keys that begin so, with their values.
    pub fn below<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a str, &'a [u8])> {
        let from = self.keys.range(prefix.to_owned()..);
        from.take_while(move |(key, _)| key.starts_with(prefix))
            .map(|(key, (value, _))| (key.as_str(), value.as_slice()))
    }

    /// The same at this revision.
    pub fn list(&self, prefix: &str) -> Listing {
        let pair = |(key, value): (&str, &[u8])| Pair { key: key.into(), value: value.into() };
        let pairs = self.below(prefix).map(pair).collect();
        let header = StoreHeader { revision: self.revision, ..StoreHeader::default() };
        Listing { revision: self.revision, header, pairs, next: None }
    }

    /// Whether all conditions of a transaction hold, and its leases are there.
    pub fn allows(&self, transaction: &Transaction) -> Result<bool, LeaseLost> {
        if !transaction.when.iter().all(|condition| self.holds(condition)) {
            return Ok(false);
        }
        for put in &transaction.puts {
            if let Some(lease) = put.lease.filter(|lease| !self.leases.contains_key(lease)) {
                return Err(LeaseLost { key: put.key.clone(), lease });
            }
        }
        Ok(true)
    }

    fn holds(&self, condition: &Condition) -> bool {
        match condition {
            Condition::Absent(key) => !self.keys.contains_key(key),
            Condition::NoneBelow(prefix) => self.below(prefix).next().is_none(),
            Condition::ValueIs(key, value) => self.get(key) == Some(value),
        }
    }

    /// Writes, whatever stood there. What changed is the next revision; nothing, and it stays.
    pub fn write(&mut self, puts: Vec<Put>, deletes: Vec<String>) -> Vec<Change> {
        let mut changes = Vec::new();
        for Put { key, value, lease } in puts {
            self.keys.insert(key.clone(), (value.clone(), lease));
            changes.push(Change::Put(Pair { key, value }));
        }
        for key in deletes {
            if self.keys.remove(&key).is_some() {
                changes.push(Change::Delete(key));
            }
        }
        self.revision.0 += i64::from(!changes.is_empty());
        changes
    }

    /// A new lease.
    pub fn grant(&mut self, ttl: Duration, now: Time) -> LeaseId {
        self.granted += 1;
        let id = LeaseId(self.granted);
        self.leases.insert(id, Lease { ttl, ends: now + ttl });
        id
    }

    /// Has a lease last its whole time again; whether there still is one.
    pub fn keep_alive(&mut self, id: LeaseId, now: Time) -> bool {
        let lease = self.leases.get_mut(&id);
        lease.map(|lease| lease.ends = now + lease.ttl).is_some()
    }

    /// Leases that ran out, and the keys that go with them.
    pub fn over(&self, now: Time) -> (Vec<LeaseId>, Vec<String>) {
        let over = self.leases.iter().filter(|(_, lease)| lease.ends <= now);
        let over: Vec<LeaseId> = over.map(|(&id, _)| id).collect();
        if over.is_empty() {
            return (over, Vec::new());
        }
        let is_over = |lease: &Option<LeaseId>| lease.is_some_and(|lease| over.contains(&lease));
        let bound = self.keys.iter().filter(|(_, (_, lease))| is_over(lease));
        let bound = bound.map(|(key, _)| key.clone()).collect();
        (over, bound)
    }

    /// A lease is no more.
    pub fn revoke(&mut self, id: LeaseId) {
        self.leases.remove(&id);
    }

    /// Every lease is over at that time.
    pub fn end_leases(&mut self, now: Time) {
        self.leases.values_mut().for_each(|lease| lease.ends = now);
    }

    /// What was that time is the beginning now.
    pub fn restart_clock(&mut self, now: Time) {
        for lease in self.leases.values_mut() {
            lease.ends = Time::default() + lease.ends.since(now);
        }
    }
}
