//! The crate `etcd-rs`. What it does not show of etcd's answers is asked for once more.

use std::time::Duration;

use etcd_rs::{
    Client, ClientConfig, DeleteRequest, Endpoint, Error, Event, EventType, KeyRange, KeyValueOp,
    LeaseGrantRequest, LeaseOp, PutRequest, RangeRequest, ResponseHeader, TxnCmp, TxnRequest,
    WatchCanceler, WatchCreateRequest, WatchInbound, WatchOp, WatchStream,
};
use hyper::Uri;
use tokio::time::timeout;
use volvox_actors::ports::{
    Condition, LeaseId, Put, Revision, StoreHeader, Transaction, WatchEvent,
};

use super::{CONNECT_PATIENCE, PING_EVERY, Page, Range, Watching, Written, end_of, event};
use crate::{Certificates, Endpoints, EtcdError, PATIENCE};

/// The crate `etcd-rs`.
#[derive(Clone)]
pub struct EtcdRs(Client);

impl super::Client for EtcdRs {
    type Watch = Watch;

    /// It reads no answer above 4 MiB.
    const PAGE_BYTES: usize = 1 << 20;

    async fn connect(to: Endpoints) -> Result<Self, EtcdError> {
        let endpoint = |server: &String| endpoint(server, to.tls.as_ref());
        let endpoints: Vec<_> = to.servers.iter().map(endpoint).collect::<Result<_, _>>()?;
        let mut config = ClientConfig::new(endpoints)
            .connect_timeout(CONNECT_PATIENCE)
            .http2_keep_alive_interval(PING_EVERY);
        if let Some((name, password)) = to.user {
            config = config.auth(name, password);
        }
        Ok(Self(Client::connect(config).await?))
    }

    async fn range(self, range: Range) -> Result<Page, EtcdError> {
        let request = RangeRequest::new(KeyRange::range(range.key, range.end))
            .limit(u64::try_from(range.limit).unwrap_or_default())
            .revision(range.revision.0);
        let page = self.0.get(request).await?;
        Ok(Page {
            header: header(&page.header),
            pairs: page.kvs.into_iter().map(|pair| (pair.key, pair.value)).collect(),
            more: page.has_more,
        })
    }

    async fn commit(self, transaction: Transaction) -> Result<bool, EtcdError> {
        Ok(self.0.txn(to_txn(transaction)).await?.succeeded)
    }

    async fn watch(self, prefix: &str, from: Revision) -> Result<Watch, EtcdError> {
        // A server that does not let this user watch says so in what the client keeps to itself.
        look(&self, prefix, Revision::default()).await?;
        let request = WatchCreateRequest::create(range_below(prefix)).start_revision(from.0);
        let (stream, open) = self.0.watch(request).await?;
        Ok(Watch { client: self, prefix: prefix.to_owned(), next: from, stream, _open: open })
    }

    async fn grant(self, ttl: Duration) -> Result<LeaseId, EtcdError> {
        Ok(LeaseId(self.0.grant_lease(LeaseGrantRequest::new(ttl)).await?.id))
    }

    async fn keep_alive(self, lease: LeaseId) -> Result<bool, EtcdError> {
        // The first answer is not shown, only the second one.
        let mut keeper = self.0.keep_alive_for(lease.0).await?;
        let answer = keeper.keep_alive().await?.ok_or(Error::KeepAliveLease)?;
        Ok(answer.ttl > 0)
    }
}

/// A server, as the crate wants to have it named.
fn endpoint(server: &str, tls: Option<&Certificates>) -> Result<Endpoint, EtcdError> {
    let url = match (server.contains("://"), tls) {
        (true, _) => server.to_owned(),
        (false, Some(_)) => format!("https://{server}"),
        (false, None) => format!("http://{server}"),
    };
    if !url.starts_with("https://") {
        return Ok(Endpoint::new(url));
    }
    let Some(Certificates { authority: Some(authority), own: Some((certificate, key)) }) = tls
    else {
        return Err(EtcdError::Unable(
            "a server with https needs trusted-ca-file, cert-file and key-file, all three, in the \
             file that etcd.config names; --kvstore=etcd does with fewer",
        ));
    };
    // One that is no URL is refused when it is connected to.
    let parsed = url.parse::<Uri>().unwrap_or_default();
    let host = parsed.host().unwrap_or_default().trim_matches(['[', ']']);
    Ok(Endpoint::new(url).tls_raw(host, authority, certificate, key))
}

/// A watch of `etcd-rs`.
pub struct Watch {
    client: EtcdRs,
    prefix: String,
    /// What is to be told next.
    next: Revision,
    stream: WatchStream,
    /// Dropped, the watch has nobody any more who asks for it.
    _open: WatchCanceler,
}

impl Watching for Watch {
    async fn next(&mut self) -> Result<WatchEvent, EtcdError> {
        let reported = match self.stream.inbound().await {
            WatchInbound::Ready(response) => {
                event(header(&response.header), response.events.into_iter().map(written))
            }
            WatchInbound::Closed => return why_closed(&self.client, &self.prefix, self.next).await,
            WatchInbound::Interrupted(error) => {
                let error = EtcdError::from(error);
                // What came at once is more than the client reads. A list comes in parts.
                return if error.is_out_of_range() {
                    Ok(WatchEvent::Compacted)
                } else {
                    Err(error)
                };
            }
        };
        if let WatchEvent::Changed { revision, .. } = reported {
            self.next = Revision(revision.0 + 1);
        }
        Ok(reported)
    }

    /// There is no way to ask the watch itself: the same server's other answers stand for it, and
    /// the pings of the connection.
    async fn ask(&mut self) -> Result<Option<WatchEvent>, EtcdError> {
        let look = look(&self.client, &self.prefix, Revision::default());
        match timeout(PATIENCE, look).await {
            Ok(answer) => answer.map(|header| Some(WatchEvent::Alive(header))),
            Err(_) => Err(EtcdError::Silence(PATIENCE.as_secs())),
        }
    }
}

/// The server had its reasons to end a watch, which the client keeps to itself.
async fn why_closed(
    client: &EtcdRs,
    prefix: &str,
    next: Revision,
) -> Result<WatchEvent, EtcdError> {
    match look(client, prefix, next).await {
        Err(error) if error.is_compacted() => Ok(WatchEvent::Compacted),
        Err(error) if !error.is_out_of_range() => Err(error),
        // It can go on from there, or nothing has come since.
        _ => Err(Error::WatchEventExhausted.into()),
    }
}

/// Whether the servers answer, and let this user read, as it was at a revision.
async fn look(client: &EtcdRs, prefix: &str, revision: Revision) -> Result<StoreHeader, EtcdError> {
    let KeyRange { key, range_end: end } = range_below(prefix);
    let page = super::Client::range(client.clone(), Range { key, end, limit: 1, revision }).await?;
    Ok(page.header)
}

/// Who answers.
fn header(said: &ResponseHeader) -> StoreHeader {
    StoreHeader {
        cluster: said.cluster_id(),
        term: said.raft_term(),
        revision: Revision(said.revision()),
    }
}

fn range_below(prefix: &str) -> KeyRange {
    KeyRange::range(prefix, end_of(prefix.as_bytes()))
}

fn written(event: Event) -> Written {
    Written {
        revision: event.kv.mod_revision,
        key: event.kv.key,
        value: match event.event_type {
            EventType::Put => Some(event.kv.value),
            EventType::Delete => None,
        },
    }
}

fn to_txn(transaction: Transaction) -> TxnRequest {
    let mut txn = TxnRequest::new();
    for condition in transaction.when {
        let same = TxnCmp::Equal;
        txn = match condition {
            Condition::Absent(key) => txn.when_create_revision(KeyRange::key(key), same, 0),
            Condition::NoneBelow(prefix) => txn.when_create_revision(range_below(&prefix), same, 0),
            Condition::ValueIs(key, value) => txn.when_value(KeyRange::key(key), same, value),
        };
    }
    for Put { key, value, lease } in transaction.puts {
        let lease = lease.map_or(0, |lease| lease.0);
        txn = txn.and_then(PutRequest::new(key, value).lease(lease));
    }
    for key in transaction.deletes {
        txn = txn.and_then(DeleteRequest::new(KeyRange::key(key)));
    }
    txn
}
