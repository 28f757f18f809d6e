//! What the port asks of a client of etcd, whichever it is.

mod etcd_client;
#[cfg(feature = "etcd-rs")]
mod etcd_rs;

use std::{future::Future, time::Duration};

use volvox_actors::ports::{Change, LeaseId, Pair, Revision, StoreHeader, Transaction, WatchEvent};

use super::{Endpoints, EtcdError};

pub(super) use etcd_client::EtcdClient;
#[cfg(feature = "etcd-rs")]
pub(super) use etcd_rs::EtcdRs;

/// How long a server may take to take a connection.
const CONNECT_PATIENCE: Duration = Duration::from_secs(3);
/// How often a connection is asked whether it lives.
const PING_EVERY: Duration = Duration::from_secs(5);

/// A client that is connected. Its copies share the connection.
pub trait Client: Clone + Send + Sync + 'static {
    /// How it follows keys.
    type Watch: Watching;

    /// Bytes that a page is meant to have. For each page the server goes through all keys that are
    /// left, so few are better than many.
    const PAGE_BYTES: usize;

    /// Connects.
    fn connect(to: Endpoints) -> impl Future<Output = Result<Self, EtcdError>> + Send;

    /// Reads keys, as a majority of the servers has them.
    fn range(self, range: Range) -> impl Future<Output = Result<Page, EtcdError>> + Send;

    /// Does what a transaction says; whether its conditions held.
    fn commit(
        self,
        transaction: Transaction,
    ) -> impl Future<Output = Result<bool, EtcdError>> + Send;

    /// Follows keys that begin so, from that revision on.
    fn watch(
        self,
        prefix: &str,
        from: Revision,
    ) -> impl Future<Output = Result<Self::Watch, EtcdError>> + Send;

    /// Makes a lease that lasts that long, in whole seconds.
    fn grant(self, ttl: Duration) -> impl Future<Output = Result<LeaseId, EtcdError>> + Send;

    /// Has a lease last its whole time again; whether there still is one.
    fn keep_alive(self, lease: LeaseId) -> impl Future<Output = Result<bool, EtcdError>> + Send;
}

/// A watch.
pub trait Watching: Send {
    /// What it tells next. May be dropped before it is done: nothing is lost then.
    fn next(&mut self) -> impl Future<Output = Result<WatchEvent, EtcdError>> + Send;

    /// Asks whether it lives; without an answer here, that comes by `next`.
    fn ask(&mut self) -> impl Future<Output = Result<Option<WatchEvent>, EtcdError>> + Send;
}

/// Keys that are desired.
#[derive(Clone, Debug)]
pub struct Range {
    /// The first one.
    pub key: Vec<u8>,
    /// The first one behind them.
    pub end: Vec<u8>,
    /// How many at most.
    pub limit: i64,
    /// As they were then; 0 is now.
    pub revision: Revision,
}

/// What there is of a range.
#[derive(Debug)]
pub struct Page {
    /// Who answered, and the revision of the store when it was read.
    pub header: StoreHeader,
    /// Keys with their values, by key.
    pub pairs: Vec<(Vec<u8>, Vec<u8>)>,
    /// Whether there are more.
    pub more: bool,
}

/// A key that was written, or with no value deleted.
struct Written {
    revision: i64,
    key: Vec<u8>,
    value: Option<Vec<u8>>,
}

/// What an answer of a watch says. Revisions come whole: the last one is what to go on from.
fn event(header: StoreHeader, all: impl Iterator<Item = Written>) -> WatchEvent {
    let (mut last, mut changes) = (None, Vec::new());
    for Written { revision, key, value } in all {
        last = last.max(Some(Revision(revision)));
        // Nobody of ours writes keys that are no text.
        let Ok(key) = String::from_utf8(key) else { continue };
        changes.push(match value {
            Some(value) => Change::Put(Pair { key, value }),
            None => Change::Delete(key),
        });
    }
    match last {
        Some(revision) => WatchEvent::Changed { revision, changes },
        None => WatchEvent::Alive(header),
    }
}

/// The first key behind all that begin so.
pub(super) fn end_of(prefix: &[u8]) -> Vec<u8> {
    let last = prefix.iter().rposition(|&byte| byte < u8::MAX);
    match last {
        Some(place) => [&prefix[..place], &[prefix[place] + 1]].concat(),
        // To the end of all keys.
        None => vec![0],
    }
}
