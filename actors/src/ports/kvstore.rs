//! The port to a key-value store: lists, transactions, watches and leases.

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};

use crate::host::Reply;

/// How often a [watch](KvStore::watch) says that it lives while nothing changes.
pub const WATCH_ALIVE_EVERY: Duration = Duration::from_secs(10);

/// Puts and deletions that a [`Transaction`] may hold together: as many as etcd takes by default.
pub const TRANSACTION_MAX: usize = 128;

/// A state of the whole store: each change of it has the next number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Revision(pub i64);

/// What a store says of itself with an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreHeader {
    /// Which store it is: the number of its cluster of servers.
    pub cluster: u64,
    /// How often its servers chose a leader.
    pub term: u64,
    /// The state that it is in.
    pub revision: Revision,
}

/// A lease: keys bound to it go when nobody keeps it alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct LeaseId(pub i64);

impl fmt::Display for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}", self.0)
    }
}

/// A key with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The key.
    pub key: String,
    /// The value.
    pub value: Vec<u8>,
}

/// A part of what stood below a prefix at one revision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// The revision, the same for all parts.
    pub revision: Revision,
    /// Who answered this part.
    pub header: StoreHeader,
    /// The part, by key.
    pub pairs: Vec<Pair>,
    /// Where the next part begins; none behind the last.
    pub next: Option<ListPosition>,
}

/// Where a part of a list begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListPosition {
    /// The revision of the list.
    pub revision: Revision,
    /// The first key that may be in it.
    pub key: Vec<u8>,
    /// Pairs that it may have.
    pub limit: i64,
}

/// What must hold for a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// There is no such key.
    Absent(String),
    /// There is no key that begins so.
    NoneBelow(String),
    /// The key is there and has this value.
    ValueIs(String, Vec<u8>),
}

/// A write of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Put {
    /// The key.
    pub key: String,
    /// Its value from now on.
    pub value: Vec<u8>,
    /// The lease that it is bound to; without one it stays.
    pub lease: Option<LeaseId>,
}

/// Writes that are all done, or none of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transaction {
    /// What must hold.
    pub when: Vec<Condition>,
    /// What is written, each key once.
    pub puts: Vec<Put>,
    /// What is deleted; absent keys are fine.
    pub deletes: Vec<String>,
}

/// A change of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// It has this value now.
    Put(Pair),
    /// It is gone.
    Delete(String),
}

impl Change {
    /// The key.
    pub fn key(&self) -> &str {
        match self {
            Self::Put(pair) => &pair.key,
            Self::Delete(key) => key,
        }
    }
}

/// What a watch tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchEvent {
    /// All that changed up to this revision and was not told before, in order.
    Changed {
        /// The revision.
        revision: Revision,
        /// The changes.
        changes: Vec<Change>,
    },
    /// The watch began, or nothing changed, and the store still answers; comes every
    /// [`WATCH_ALIVE_EVERY`]. A server that lags behind others may say an older revision.
    Alive(StoreHeader),
    /// The changes from the desired revision on are not kept any more: the watch is over.
    Compacted,
    /// The watch is over.
    Ended(KvError),
}

/// Where a watch tells what it sees, on the actors' thread; false if it could not be taken, which
/// ends the watch.
pub type WatchSink = Box<dyn FnMut(WatchEvent) -> bool>;

/// A watch that goes on until this is dropped.
pub struct Watch(Option<Box<dyn FnOnce()>>);

impl Watch {
    /// A watch that is ended by that.
    pub fn new(end: impl FnOnce() + 'static) -> Self {
        Self(Some(Box::new(end)))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(end) = self.0.take() {
            end();
        }
    }
}

/// What went wrong with the store, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{op} {about}: {cause}; {remedy}")]
pub struct KvError {
    /// What was to be done, as a verb.
    pub op: &'static str,
    /// The key, prefix or lease that it was about.
    pub about: String,
    /// The store's or the system's words.
    pub cause: String,
    /// What an operator can do.
    pub remedy: &'static str,
}

/// A key-value store with revisions and leases, which the nodes of a cluster share.
///
/// Requests may run at the same time and be answered in another order. What was not answered may
/// have been done.
pub trait KvStore {
    /// Reads keys that begin so, as a majority of the store has them, from the first one or from a
    /// place on that a part before has named.
    fn list(
        &self,
        prefix: &str,
        from: Option<ListPosition>,
        reply: Reply<Result<Listing, KvError>>,
    );

    /// Does what a transaction says; whether its conditions held.
    fn commit(&self, transaction: Transaction, reply: Reply<Result<bool, KvError>>);

    /// Tells of each change, from that revision on, of keys that begin so; from revision 0, of those
    /// from now on.
    fn watch(&self, prefix: &str, from: Revision, tell: WatchSink) -> Watch;

    /// Makes a lease that lasts that long unless it is kept alive.
    fn grant(&self, ttl: Duration, reply: Reply<Result<LeaseId, KvError>>);

    /// Has a lease last its whole time again; whether there still is one.
    fn keep_alive(&self, lease: LeaseId, reply: Reply<Result<bool, KvError>>);
}
