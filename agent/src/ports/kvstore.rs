//! The store that the nodes of a cluster share: etcd, or for a single node a file.
//!
//! A thread of its own speaks to the servers; what it hears goes to the actors' thread. The client
//! connects again by itself, but resumes neither watches nor leases: the actors do that.

mod client;
mod embedded;
mod error;
mod file;
mod follow;
mod options;

use std::{future::Future, thread, time::Duration};

use etcd_client::{Compare, CompareOp, GetOptions, KeyValue, KvClient, PutOptions, Txn, TxnOp};
use tokio::{
    runtime::{Builder, Handle},
    sync::{mpsc, oneshot},
    task::spawn_local,
};
use volvox_actors::{
    host::Reply,
    ports::{
        Condition, KvError, KvStore, LeaseId, Listing, Pair, Place, Put, Revision, Transaction,
        Watch, WatchSink,
    },
};

use client::Connection;
pub use embedded::Embedded;
pub use error::EtcdError;
pub use options::{Endpoints, EtcdOptions};

/// Pairs that are read at once, at first and at most.
const PAGE: (i64, i64) = (1000, 100_000);
/// How many times larger than the page before one may be: what follows may have longer values.
const PAGE_GROWTH: i64 = 8;
/// Bytes that a page is meant to have. For each page the server goes through all keys that are
/// left, so few are better than many.
const PAGE_BYTES: usize = 4 << 20;
/// Largest answer that is read, bytes: a page of large values.
const ANSWER_MAX: usize = 64 << 20;
/// What a watch may be ahead of the actors' thread, events.
const EVENTS_MAX: usize = 64;

/// The way to etcd. Its thread ends when this is dropped.
pub struct Etcd {
    runtime: Handle,
    connection: Connection,
    _end: oneshot::Sender<()>,
}

impl Etcd {
    /// Starts the thread; does not wait for a server. To be called on the actors' thread.
    pub fn start(options: EtcdOptions) -> Result<Self, EtcdError> {
        let runtime =
            Builder::new_current_thread().enable_all().build().map_err(EtcdError::Thread)?;
        let handle = runtime.handle().clone();
        let (end, ended) = oneshot::channel::<()>();
        thread::Builder::new()
            .name("etcd".to_owned())
            .spawn(move || {
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

impl KvStore for Etcd {
    fn list(&self, prefix: &str, from: Option<Place>, reply: Reply<Result<Listing, KvError>>) {
        let (connection, prefix) = (self.connection.clone(), prefix.to_owned());
        let work = async move {
            let kv = |client: etcd_client::Client| {
                let kv = client.kv_client().max_decoding_message_size(ANSWER_MAX);
                list(kv, prefix.clone(), from)
            };
            connection.call("list", &prefix, kv).await
        };
        self.answer(work, reply);
    }

    fn commit(&self, transaction: Transaction, reply: Reply<Result<bool, KvError>>) {
        let connection = self.connection.clone();
        let work = async move {
            let about = about(&transaction);
            let txn = to_txn(transaction);
            let commit = |client: etcd_client::Client| async move {
                Ok(client.kv_client().txn(txn).await?.succeeded())
            };
            connection.call("write", &about, commit).await
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
        let seconds = i64::try_from(ttl.as_secs().max(1)).unwrap_or(i64::MAX);
        let work = async move {
            let grant = |mut client: etcd_client::Client| async move {
                Ok(LeaseId(client.lease_grant(seconds, None).await?.id()))
            };
            connection.call("grant", "a lease", grant).await
        };
        self.answer(work, reply);
    }

    fn keep_alive(&self, lease: LeaseId, reply: Reply<Result<bool, KvError>>) {
        let connection = self.connection.clone();
        let work = async move {
            let keep = |mut client: etcd_client::Client| async move {
                match client.lease_keep_alive(lease.0).await {
                    Ok(_) => Ok(true),
                    Err(etcd_client::Error::LeaseKeepAliveError(cause))
                        if cause == LEASE_NOT_FOUND =>
                    {
                        Ok(false)
                    }
                    Err(error) => Err(error),
                }
            };
            connection.call("keep alive", &format!("lease {lease}"), keep).await
        };
        self.answer(work, reply);
    }
}

/// How the client says that a lease ran out.
const LEASE_NOT_FOUND: &str = "lease not found";

/// Reads a page of a prefix, as it was at the revision of the first.
async fn list(
    mut kv: KvClient,
    prefix: String,
    from: Option<Place>,
) -> Result<Listing, etcd_client::Error> {
    let end = end_of(prefix.as_bytes());
    let first = || Place { revision: Revision(0), key: prefix.into_bytes(), limit: PAGE.0 };
    let Place { mut revision, key, mut limit } = from.unwrap_or_else(first);
    let mut page = loop {
        let options =
            GetOptions::new().with_range(end.clone()).with_limit(limit).with_revision(revision.0);
        match kv.get(key.clone(), Some(options)).await {
            Err(error) if is_too_large(&error) && limit > 1 => {
                limit = (limit / PAGE_GROWTH).max(1);
            }
            answer => break answer?,
        }
    };
    if revision == Revision::default() {
        revision = Revision(page.header().map_or(0, |header| header.revision()));
    }
    let pairs = page.take_kvs();
    let next = pairs.last().filter(|_| page.more()).map(|last| Place {
        revision,
        key: [last.key(), b"\0"].concat(),
        limit: next_limit(limit, &pairs),
    });
    let text = |pair: KeyValue| {
        let (key, value) = pair.into_key_value();
        // Nobody of ours writes keys that are no text.
        Some(Pair { key: String::from_utf8(key).ok()?, value })
    };
    Ok(Listing { revision, pairs: pairs.into_iter().filter_map(text).collect(), next })
}

/// Whether an answer was not read because it is too large.
fn is_too_large(error: &etcd_client::Error) -> bool {
    // As gRPC numbers its codes. The server has it for a revision that is compacted, too: then it
    // is the answer to a single pair as well.
    const OUT_OF_RANGE: i32 = 11;
    matches!(error, etcd_client::Error::GRpcStatus(status) if i32::from(status.code()) == OUT_OF_RANGE)
}

/// How many pairs to ask for after a page of these.
fn next_limit(before: i64, pairs: &[KeyValue]) -> i64 {
    let bytes: usize = pairs.iter().map(|pair| pair.key().len() + pair.value().len()).sum();
    let limit = PAGE_BYTES.saturating_mul(pairs.len()) / bytes.max(1);
    let most = PAGE.1.min(before.saturating_mul(PAGE_GROWTH));
    i64::try_from(limit).unwrap_or(most).clamp(1, most)
}

/// The first key behind all that begin so.
fn end_of(prefix: &[u8]) -> Vec<u8> {
    let last = prefix.iter().rposition(|&byte| byte < u8::MAX);
    match last {
        Some(place) => [&prefix[..place], &[prefix[place] + 1]].concat(),
        // To the end of all keys.
        None => vec![0],
    }
}

fn to_txn(transaction: Transaction) -> Txn {
    let compare = |condition: Condition| match condition {
        Condition::Absent(key) => Compare::create_revision(key, CompareOp::Equal, 0),
        Condition::NoneBelow(prefix) => {
            Compare::create_revision(prefix, CompareOp::Equal, 0).with_prefix()
        }
        Condition::ValueIs(key, value) => Compare::value(key, CompareOp::Equal, value),
    };
    let put = |Put { key, value, lease }: Put| {
        let options = lease.map(|lease| PutOptions::new().with_lease(lease.0));
        TxnOp::put(key, value, options)
    };
    let when: Vec<_> = transaction.when.into_iter().map(compare).collect();
    let puts = transaction.puts.into_iter().map(put);
    let deletes = transaction.deletes.into_iter().map(|key| TxnOp::delete(key, None));
    Txn::new().when(when).and_then(puts.chain(deletes).collect::<Vec<_>>())
}

/// The first key that a transaction writes, for errors.
fn about(transaction: &Transaction) -> String {
    let puts = transaction.puts.iter().map(|put| &put.key);
    puts.chain(&transaction.deletes).next().cloned().unwrap_or_default()
}
