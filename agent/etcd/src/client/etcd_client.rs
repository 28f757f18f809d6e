//! The port's client by the crate `etcd-client`: options, requests and watches in its terms.

use std::time::Duration;

use etcd_client::{
    Certificate, Client, Compare, CompareOp, ConnectOptions, Error, Event, EventType, GetOptions,
    Identity, KeyValue, PutOptions, ResponseHeader, TlsOptions, Txn, TxnOp, WatchOptions,
    WatchRequestSender, WatchResponseStream,
};
use volvox_actors::ports::{
    Condition, LeaseId, Put, Revision, StoreHeader, Transaction, WatchEvent,
};

use super::{CONNECT_PATIENCE, PING_EVERY, Page, Range, Watching, Written, event};
use crate::{Endpoints, EtcdError};

/// How long a connection may leave a ping without an answer.
const PING_PATIENCE: Duration = Duration::from_secs(5);
/// Largest answer that is read, bytes: a page of large values.
const ANSWER_MAX: usize = 64 << 20;
/// How the client says that a lease ran out.
const LEASE_NOT_FOUND: &str = "lease not found";

/// The crate `etcd-client`.
#[derive(Clone)]
pub struct EtcdClient(Client);

impl super::Client for EtcdClient {
    type Watch = Watch;

    const PAGE_BYTES: usize = 4 << 20;

    async fn connect(to: Endpoints) -> Result<Self, EtcdError> {
        let mut options = ConnectOptions::new()
            .with_connect_timeout(CONNECT_PATIENCE)
            .with_keep_alive(PING_EVERY, PING_PATIENCE)
            .with_keep_alive_while_idle(true)
            .with_require_leader(true)
            .with_auto_token_refresh(true);
        if let Some(certificates) = to.tls {
            let mut tls = TlsOptions::new();
            if let Some(authority) = certificates.authority {
                tls = tls.ca_certificate(Certificate::from_pem(authority));
            }
            if let Some((certificate, key)) = certificates.own {
                tls = tls.identity(Identity::from_pem(certificate, key));
            }
            options = options.with_tls(tls);
        }
        if let Some((name, password)) = to.user {
            options = options.with_user(name, password);
        }
        Ok(Self(Client::connect(to.servers, Some(options)).await?))
    }

    async fn range(self, range: Range) -> Result<Page, EtcdError> {
        let options = GetOptions::new()
            .with_range(range.end)
            .with_limit(range.limit)
            .with_revision(range.revision.0);
        let mut kv = self.0.kv_client().max_decoding_message_size(ANSWER_MAX);
        let mut page = kv.get(range.key, Some(options)).await?;
        Ok(Page {
            header: header(page.header()),
            pairs: page.take_kvs().into_iter().map(KeyValue::into_key_value).collect(),
            more: page.more(),
        })
    }

    async fn commit(self, transaction: Transaction) -> Result<bool, EtcdError> {
        Ok(self.0.kv_client().txn(to_txn(transaction)).await?.succeeded())
    }

    async fn watch(self, prefix: &str, from: Revision) -> Result<Watch, EtcdError> {
        let options = WatchOptions::new().with_prefix().with_start_revision(from.0);
        let mut client = self.0.watch_client().max_decoding_message_size(ANSWER_MAX);
        let (requests, responses) = client.watch(prefix, Some(options)).await?.split();
        Ok(Watch { requests, responses })
    }

    async fn grant(mut self, ttl: Duration) -> Result<LeaseId, EtcdError> {
        let seconds = i64::try_from(ttl.as_secs()).unwrap_or(i64::MAX);
        Ok(LeaseId(self.0.lease_grant(seconds, None).await?.id()))
    }

    async fn keep_alive(mut self, lease: LeaseId) -> Result<bool, EtcdError> {
        match self.0.lease_keep_alive(lease.0).await {
            Ok(_) => Ok(true),
            Err(Error::LeaseKeepAliveError(cause)) if cause == LEASE_NOT_FOUND => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

/// A watch of `etcd-client`.
pub struct Watch {
    requests: WatchRequestSender,
    responses: WatchResponseStream,
}

impl Watching for Watch {
    async fn next(&mut self) -> Result<WatchEvent, EtcdError> {
        let Some(response) = self.responses.message().await? else {
            return Err(Error::WatchError("the server ended it".to_owned()).into());
        };
        if response.canceled() {
            if response.compact_revision() > 0 {
                return Ok(WatchEvent::Compacted);
            }
            return Err(Error::WatchError(response.cancel_reason().to_owned()).into());
        }
        Ok(event(header(response.header()), response.events().iter().filter_map(written)))
    }

    async fn ask(&mut self) -> Result<Option<WatchEvent>, EtcdError> {
        self.requests.request_progress().await?;
        Ok(None)
    }
}

/// Who answers.
fn header(said: Option<&ResponseHeader>) -> StoreHeader {
    said.map_or_else(StoreHeader::default, |said| StoreHeader {
        cluster: said.cluster_id(),
        term: said.raft_term(),
        revision: Revision(said.revision()),
    })
}

fn written(event: &Event) -> Option<Written> {
    let pair = event.kv()?;
    Some(Written {
        revision: pair.mod_revision(),
        key: pair.key().to_owned(),
        value: match event.event_type() {
            EventType::Put => Some(pair.value().to_vec()),
            EventType::Delete => None,
        },
    })
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
