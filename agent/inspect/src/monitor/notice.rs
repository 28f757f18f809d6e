//! What the agent itself has to say, among the datapath's records: Cilium's `AgentNotify`, with its
//! kinds and the members of its JSON.

use std::{
    io::{self, Read, Write},
    os::unix::net::UnixStream,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
};

use serde_json::{Value, json};
use volvox_actors::ports::{AddressNews, AgentNews, AgentNotices};
use volvox_maps::Event;

use super::gob::{agent_notify, read_agent_notify};

/// Notices that may wait to be handed on.
const WAITING: usize = 8192;
/// First byte of a notice, as a record begins with its kind: `MessageTypeAgent`.
const AGENT: u8 = 130;
/// Kind of a notice that is of none of Cilium's: `AgentNotifyGeneric`.
const GENERIC: u64 = 1;
/// The agent started.
const STARTED: u64 = 2;
/// An endpoint was built, or could not be.
const REGENERATED: u64 = 3;
const NOT_REGENERATED: u64 = 4;
/// Policies changed, or are gone.
const POLICY_UPDATED: u64 = 5;
const POLICY_DELETED: u64 = 6;
/// An endpoint was made, or deleted.
const ENDPOINT_CREATED: u64 = 7;
const ENDPOINT_DELETED: u64 = 8;
/// An address was mapped, or is no more.
const IPCACHE_UPSERTED: u64 = 9;
const IPCACHE_DELETED: u64 = 10;

/// Takes notices; never waits.
#[derive(Debug)]
pub struct Notifier {
    queue: SyncSender<AgentNews>,
    /// How many found no room.
    missed: Arc<AtomicU64>,
    bell: UnixStream,
}

/// The other end: who hands them on.
#[derive(Debug)]
pub struct Notified {
    queue: Receiver<AgentNews>,
    missed: Arc<AtomicU64>,
    pub(super) bell: UnixStream,
}

/// Both ends.
pub fn notices() -> io::Result<(Notifier, Notified)> {
    let (bell, heard) = UnixStream::pair()?;
    bell.set_nonblocking(true)?;
    heard.set_nonblocking(true)?;
    let (queue, waiting) = sync_channel(WAITING);
    let missed = Arc::new(AtomicU64::new(0));
    let notifier = Notifier { queue, missed: Arc::clone(&missed), bell };
    Ok((notifier, Notified { queue: waiting, missed, bell: heard }))
}

impl AgentNotices for Notifier {
    fn happened(&self, news: AgentNews) {
        // Without anybody who hands them on nobody misses them.
        match self.queue.try_send(news) {
            Ok(()) => drop((&self.bell).write(&[0])),
            Err(_) => drop(self.missed.fetch_add(1, Ordering::Relaxed)),
        }
    }
}

/// The kind of a notice, and its JSON.
fn payload(news: &AgentNews) -> (u64, Value) {
    match news {
        AgentNews::Drifted(drift) => {
            let message = format!("rows that somebody else changed are put right: {drift}");
            (GENERIC, json!({ "message": message, "drift": drift }))
        }
        AgentNews::Started { time } => (STARTED, json!({ "time": time })),
        AgentNews::Regenerated { id, labels, error } => {
            let mut value = json!({ "id": id.0, "labels": labels.to_texts() });
            if let Some(error) = error {
                value["error"] = json!(error);
            }
            (if error.is_some() { NOT_REGENERATED } else { REGENERATED }, value)
        }
        AgentNews::Policies { labels, revision, count, deleted } => {
            let value = json!({ "labels": labels, "revision": revision, "rule_count": count });
            (if *deleted { POLICY_DELETED } else { POLICY_UPDATED }, value)
        }
        AgentNews::Endpoint { id, labels, namespace, pod, deleted } => {
            let mut value = json!({ "id": id.0, "labels": labels.to_texts() });
            if !pod.is_empty() {
                (value["pod-name"], value["namespace"]) = (json!(pod), json!(namespace));
            }
            (if *deleted { ENDPOINT_DELETED } else { ENDPOINT_CREATED }, value)
        }
        AgentNews::Address { prefix, now, before, deleted } => {
            let AddressNews { identity, node, key } = now;
            let mut value = json!({ "cidr": prefix, "id": identity.0, "encrypt-key": key });
            if let Some(node) = node {
                value["host-ip"] = json!(node);
            }
            if let Some(before) = before {
                value["old-id"] = json!(before.identity.0);
                if let Some(node) = before.node {
                    value["old-host-ip"] = json!(node);
                }
            }
            (if *deleted { IPCACHE_DELETED } else { IPCACHE_UPSERTED }, value)
        }
    }
}

/// A notice as a record.
pub(super) fn record(news: &AgentNews) -> Event {
    let (kind, json) = payload(news);
    let mut bytes = vec![AGENT];
    bytes.extend(agent_notify(kind, &json.to_string()));
    Event::Sample { cpu: 0, bytes }
}

impl Notified {
    /// Those that came since, and how many found no room.
    pub(super) fn take(&self) -> (Vec<AgentNews>, u64) {
        let mut rung = [0; 64];
        while (&self.bell).read(&mut rung).is_ok_and(|read| read == rung.len()) {}
        (self.queue.try_iter().collect(), self.missed.swap(0, Ordering::Relaxed))
    }
}

/// The message of a notice, if a record is one.
pub fn notice(record: &[u8]) -> Option<String> {
    let (&AGENT, notify) = record.split_first()? else { return None };
    let text = read_agent_notify(notify)?;
    let message = serde_json::from_str::<Value>(&text).ok();
    let message = message.and_then(|it| Some(it.get("message")?.as_str()?.to_owned()));
    Some(message.unwrap_or(text))
}

#[cfg(test)]
mod tests {
    use volvox_actors::model::{
        EndpointId, IdentityId, Labels,
        drift::{DriftByMap, DriftKind},
    };

    use super::*;

    #[test]
    fn a_notice_is_read_as_it_was_told() {
        let (notifier, notified) = notices().unwrap();
        let mut found = DriftByMap::default();
        found.note("cilium_lxc", DriftKind::Missing, "10.0.0.1");
        let drift = AgentNews::Drifted(found.into_all()[0].clone());
        for _ in 0..2 * WAITING {
            notifier.happened(drift.clone());
        }
        let (news, missed) = notified.take();
        assert_eq!((news.len(), missed as usize), (WAITING, WAITING));
        assert_eq!(notified.take(), (Vec::new(), 0));
        let Event::Sample { bytes, .. } = &record(&news[0]) else { panic!("{news:?}") };
        let text =
            "rows that somebody else changed are put right: cilium_lxc: 1 missing (10.0.0.1)";
        assert_eq!(notice(bytes).as_deref(), Some(text));
        assert_eq!(notice(&[1, 2, 3]), None);
        assert_eq!(notice(&[AGENT, 200]), None);
        drop(notified);
        notifier.happened(drift);
    }

    #[test]
    fn each_kind_has_ciliums_number_and_members() {
        let labels = Arc::new(Labels::parse(["k8s:app=web"]).unwrap());
        let id = EndpointId(7);
        let mapped = |identity, node: Option<&str>| AddressNews {
            identity: IdentityId(identity),
            node: node.map(|it| it.parse().unwrap()),
            key: 0,
        };
        let of = |deleted| AgentNews::Endpoint {
            id,
            labels: Arc::clone(&labels),
            namespace: "shop".into(),
            pod: "web".into(),
            deleted,
        };
        let policies = |deleted| {
            let labels = vec!["k8s:x=y".to_owned()];
            AgentNews::Policies { labels, revision: 3, count: 2, deleted }
        };
        let endpoint = json!({
            "id": 7, "labels": ["k8s:app=web"], "pod-name": "web", "namespace": "shop",
        });
        let policy = json!({"labels": ["k8s:x=y"], "revision": 3, "rule_count": 2});
        let built = |error: Option<&str>| {
            let error = error.map(Arc::from);
            AgentNews::Regenerated { id, labels: Arc::clone(&labels), error }
        };
        let address = |before, deleted| AgentNews::Address {
            prefix: "10.0.0.1/32".parse().unwrap(),
            now: mapped(300, Some("192.0.2.1")),
            before,
            deleted,
        };
        let cases = [
            (AgentNews::Started { time: "T".into() }, 2, json!({"time": "T"})),
            (built(None), 3, json!({"id": 7, "labels": ["k8s:app=web"]})),
            (built(Some("x")), 4, json!({"id": 7, "labels": ["k8s:app=web"], "error": "x"})),
            (policies(false), 5, policy.clone()),
            (policies(true), 6, policy),
            (of(false), 7, endpoint.clone()),
            (of(true), 8, endpoint),
            (
                address(Some(mapped(299, None)), false),
                9,
                json!({
                    "cidr": "10.0.0.1/32", "id": 300, "old-id": 299, "encrypt-key": 0,
                    "host-ip": "192.0.2.1",
                }),
            ),
            (
                address(None, true),
                10,
                json!({
                    "cidr": "10.0.0.1/32", "id": 300, "encrypt-key": 0, "host-ip": "192.0.2.1",
                }),
            ),
        ];
        for (news, kind, expected) in cases {
            assert_eq!(payload(&news), (kind, expected));
        }
    }
}
