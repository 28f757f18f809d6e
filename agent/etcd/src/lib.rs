//! etcd, the store that the nodes of a cluster share.
//!
//! A thread of its own speaks to the servers; what it hears goes to the actors' thread. The client
//! connects again by itself, but resumes neither watches nor leases: the actors do that.

mod client;
mod connection;
mod endpoints;
mod error;
mod follow;
#[cfg(any(debug_assertions, feature = "fuzzing"))]
pub mod fuzzing;
mod options;

use std::{future::Future, time::Duration};

use tokio::{
    runtime::{Builder, Handle},
    sync::{mpsc, oneshot},
    task::spawn_local,
};
use volvox_actors::{
    host::Reply,
    ports::{
        KvError, KvStore, LeaseId, ListPosition, Listing, Pair, Revision, Transaction, Watch,
        WatchSink,
    },
};

use client::{Client, EtcdClient, Page, Range, end_of};
use connection::Connection;
#[cfg(feature = "etcd-rs")]
use connection::PATIENCE;
pub use endpoints::{Certificates, Endpoints};
pub use error::EtcdError;
pub use options::{EtcdOptions, OptionError};

/// Pairs that are read at once, at first and at most.
const PAGE: (i64, i64) = (1000, 100_000);
/// How many times larger than the page before one may be: what follows may have longer values.
const PAGE_GROWTH: i64 = 8;
/// What a watch may be ahead of the actors' thread, events.
const EVENTS_MAX: usize = 64;

/// etcd, by the crate `etcd-client`.
pub type Etcd = EtcdPort<EtcdClient>;
/// etcd, by the crate `etcd-rs`.
#[cfg(feature = "etcd-rs")]
pub type EtcdRs = EtcdPort<client::EtcdRs>;

/// The way to etcd by one of the clients. Its thread ends when this is dropped.
pub struct EtcdPort<C> {
    runtime: Handle,
    connection: Connection<C>,
    _end: oneshot::Sender<()>,
}

impl<C: Client> EtcdPort<C> {
    /// Starts the thread; does not wait for a server. To be called on the actors' thread.
    pub fn start(options: EtcdOptions) -> Result<Self, EtcdError> {
        let runtime =
            Builder::new_current_thread().enable_all().build().map_err(EtcdError::Thread)?;
        let handle = runtime.handle().clone();
        let (end, ended) = oneshot::channel::<()>();
        volvox_system::threads::spawn("etcd", move || {
            // Either way the port is gone.
            let _ = runtime.block_on(ended);
        })
        .map_err(EtcdError::Thread)?;
        Ok(Self { runtime: handle, connection: Connection::new(options), _end: end })
    }

    /// Has work done on the other thread; its result comes back through `reply`.
    fn answer<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, KvError>> + Send + 'static,
        reply: Reply<Result<T, KvError>>,
    ) {
        let work = self.runtime.spawn(work);
        spawn_local(async move {
            // Dropped without an answer, the reply says itself that there will be none.
            if let Ok(result) = work.await {
                reply.send(result);
            }
        });
    }
}

impl<C: Client> KvStore for EtcdPort<C> {
    fn list(
        &self,
        prefix: &str,
        from: Option<ListPosition>,
        reply: Reply<Result<Listing, KvError>>,
    ) {
        let (connection, prefix) = (self.connection.clone(), prefix.to_owned());
        let work = async move {
            let list = |client| list::<C>(client, prefix.clone(), from);
            connection.call("list", &prefix, list).await
        };
        self.answer(work, reply);
    }

    fn commit(&self, transaction: Transaction, reply: Reply<Result<bool, KvError>>) {
        let connection = self.connection.clone();
        let work = async move {
            let about = about(&transaction);
            connection.call("write", &about, |client| client.commit(transaction)).await
        };
        self.answer(work, reply);
    }

    fn watch(&self, prefix: &str, from: Revision, mut tell: WatchSink) -> Watch {
        let (events, mut seen) = mpsc::channel(EVENTS_MAX);
        let (connection, prefix) = (self.connection.clone(), prefix.to_owned());
        self.runtime.spawn(follow::follow(connection, prefix, from, events));
        let telling = spawn_local(async move {
            while let Some(event) = seen.recv().await {
                if !tell(event) {
                    break;
                }
            }
        });
        // With its receiver gone, the other end sees that nobody listens.
        Watch::new(move || telling.abort())
    }

    fn grant(&self, ttl: Duration, reply: Reply<Result<LeaseId, KvError>>) {
        let connection = self.connection.clone();
        let ttl = ttl.max(Duration::from_secs(1));
        let work =
            async move { connection.call("grant", "a lease", |client| client.grant(ttl)).await };
        self.answer(work, reply);
    }

    fn keep_alive(&self, lease: LeaseId, reply: Reply<Result<bool, KvError>>) {
        let connection = self.connection.clone();
        let work = async move {
            let about = format!("lease {lease}");
            connection.call("keep alive", &about, |client| client.keep_alive(lease)).await
        };
        self.answer(work, reply);
    }
}

/// Reads a page of a prefix, as it was at the revision of the first.
async fn list<C: Client>(
    client: C,
    prefix: String,
    from: Option<ListPosition>,
) -> Result<Listing, EtcdError> {
    let end = end_of(prefix.as_bytes());
    let first = || ListPosition { revision: Revision(0), key: prefix.into_bytes(), limit: PAGE.0 };
    let ListPosition { mut revision, key, mut limit } = from.unwrap_or_else(first);
    let Page { header, pairs, more } = loop {
        let range = Range { key: key.clone(), end: end.clone(), limit, revision };
        match client.clone().range(range).await {
            // If it is the revision, then that is the answer to a single pair as well.
            Err(error) if error.is_out_of_range() && limit > 1 => {
                limit = (limit / PAGE_GROWTH).max(1);
            }
            answer => break answer?,
        }
    };
    if revision == Revision::default() {
        revision = header.revision;
    }
    let next = pairs.last().filter(|_| more).map(|(last, _)| ListPosition {
        revision,
        key: [last.as_slice(), b"\0"].concat(),
        limit: next_limit(limit, &pairs, C::PAGE_BYTES),
    });
    // Nobody of ours writes keys that are no text.
    let text = |(key, value)| Some(Pair { key: String::from_utf8(key).ok()?, value });
    Ok(Listing { revision, header, pairs: pairs.into_iter().filter_map(text).collect(), next })
}

/// How many pairs to ask for after a page of these, to have so many bytes.
fn next_limit(before: i64, pairs: &[(Vec<u8>, Vec<u8>)], expected: usize) -> i64 {
    let bytes: usize = pairs.iter().map(|(key, value)| key.len() + value.len()).sum();
    let limit = expected.saturating_mul(pairs.len()) / bytes.max(1);
    let most = PAGE.1.min(before.saturating_mul(PAGE_GROWTH));
    i64::try_from(limit).unwrap_or(most).clamp(1, most)
}

/// The first key that a transaction writes, for errors.
fn about(transaction: &Transaction) -> String {
    let puts = transaction.puts.iter().map(|put| &put.key);
    puts.chain(&transaction.deletes).next().cloned().unwrap_or_default()
}
