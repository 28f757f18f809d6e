//! For the fuzzer (`testbed/fuzz`): each parser of what others write by one function, which takes bytes
//! and panics over what must not be. Nothing else is for it to be called from elsewhere.

use std::sync::{Arc, OnceLock, atomic::AtomicU64};

use serde_json::Value;

use crate::{
    cluster::{
        addresses::pods::PodAddresses,
        allocator::{Entry, read_object, read_pair},
        clustermesh,
        kvstore::{ADDRESSES, IDENTITIES, Whose},
        publish, remote_nodes,
    },
    endpoints::{supervisor::EndpointReference, workloads},
    host::{
        CellId, EnvelopeId, Header, Outcome, Record, Recorder, RootId, Time, Wait, WaitId, Whom,
        flight,
    },
    model::{
        ApiObject, ClusterId, IdentityId, L4Address, Label, Labels, Mac, Readership, SharedPorts,
    },
    node::{devices::DevicePattern, local_node::PodCidrs},
    policy::{
        identity::LabelFilter,
        rules::{
            self, IdentityView, OwnCluster, PeerFacts, PolicySettings, Repository, SelectorKey,
            Subject,
        },
    },
    ports::{Change, ObjectKey, Pair},
    services::service_cache,
    state_directory,
};

/// What runs a parser over bytes.
pub type Parser = fn(&[u8]);

/// What can be fuzzed, by name.
pub const TARGETS: &[(&str, Parser)] = &[
    ("flight", flight),
    ("objects", objects),
    ("pairs", pairs),
    ("policies", policies),
    ("records", records),
    ("services", services),
    ("state_directory", state_directory),
    ("texts", texts),
    ("workloads", workloads),
];

/// Words of a ring that is written, the least that it may have.
const RING_WORDS: usize = 146 << 7;

/// Labels that policies are tried with.
const PEERS: [&[&str]; 4] = [
    &["k8s:app=web", "k8s:io.kubernetes.pod.namespace=default"],
    &["k8s:app=db", "k8s:io.kubernetes.pod.namespace=other"],
    &["reserved:world"],
    &["reserved:host"],
];

/// An endpoint's record.
pub fn records(data: &[u8]) {
    state_directory::fuzzing::record(data);
}

/// All files of a state directory.
pub fn state_directory(data: &[u8]) {
    state_directory::fuzzing::directory(data);
}

/// A flight recorder's ring: the bytes themselves, and one that was written and is damaged as they say:
/// each eleven of them name a word and what stands there.
pub fn flight(data: &[u8]) {
    ring(data);
    static WRITTEN: OnceLock<Vec<u8>> = OnceLock::new();
    let mut damaged = WRITTEN.get_or_init(written).clone();
    for patch in data.chunks_exact(11) {
        let at = usize::from(u16::from_le_bytes([patch[0], patch[1]]));
        // The front, the names and the first segment, or anywhere.
        let at = if patch[2] & 1 == 0 { at % 512 } else { at } * 8 % damaged.len();
        damaged[at..at + 8].copy_from_slice(&patch[3..]);
    }
    ring(&damaged);
}

/// A ring with records of each kind.
fn written() -> Vec<u8> {
    let memory: Arc<[AtomicU64]> = (0..RING_WORDS).map(|_| AtomicU64::new(0)).collect();
    let birth = flight::Birth { life: 7, pid: 77, ..flight::Birth::default() };
    let mut writer = flight::Writer::new(Arc::clone(&memory), &birth).expect("it is large enough");
    let (cell, at) = (CellId(40), Time(8_000_000));
    let wait = Wait {
        id: WaitId(9),
        who: Some(cell),
        whom: Whom::Cell(CellId(3)),
        why: "a permit to build".into(),
        since: Time(4_000_000),
        until: Time(99_000_000),
    };
    writer.record(Record::Spawned { cell, name: "endpoint 12", parent: None, at });
    writer.record(Record::Phase { name: "read", started: Time(900), ended: Time(1_500) });
    writer.record(Record::WaitBegan { wait: &wait });
    for id in 1..50 {
        let header = Header {
            id: EnvelopeId(id),
            kind: "Regenerate",
            from: Some(CellId(3)),
            to: cell,
            cause: EnvelopeId(id - 1),
            root: RootId(1),
            enqueued: at,
        };
        let outcome = Outcome::Handled;
        writer.record(Record::Message { header, started: at, ended: at, outcome });
    }
    flight::to_bytes(&memory)
}

/// Whatever is in a ring, events are in order, no more than fit, and can be exported.
fn ring(data: &[u8]) {
    let _ = (flight::birth(data), flight::is_unwritten(data), flight::older(data, 2));
    let Ok(whole) = flight::read(data, 0) else { return };
    assert!(whole.events.is_sorted_by(|one, other| one.seq < other.seq), "events out of order");
    assert!(whole.events.len() <= data.len(), "more events than bytes");
    let middle = whole.events.get(whole.events.len() / 2).map_or(0, |event| event.seq);
    let part = flight::read_part(data, middle, 3).expect("the whole could be read");
    assert!(part.events.len() <= 3 && part.events.iter().all(|event| event.seq > middle));
    let exported = serde_json::to_vec(&whole).expect("it can be exported");
    let read: flight::Flight = serde_json::from_slice(&exported).expect("what was exported");
    assert_eq!(read, whole);
}

/// The documents of a text: those of a list, or one.
fn documents(data: &[u8]) -> Option<Vec<ApiObject>> {
    values(data).map(ApiObject::all)
}

fn values(data: &[u8]) -> Option<Vec<Value>> {
    match serde_json::from_slice(data).ok()? {
        Value::Array(documents) => Some(documents),
        document => Some(vec![document]),
    }
}

/// Policies and groups of prefixes, with services that they may name. What is accepted gives rows
/// that fit; given once more it changes nothing.
pub fn policies(data: &[u8]) {
    let Some(documents) = documents(data).map(Ok::<_, String>) else { return };
    let settings = PolicySettings {
        cluster: Some(OwnCluster::new("default")),
        node_selectors: true,
        host_firewall: true,
        ..PolicySettings::default()
    };
    let mut services = rules::KnownServices::default();
    services.apply("fuzz.yaml", &documents, Some("default"));
    services.rejected().for_each(|(_, error)| assert!(!error.to_string().is_empty()));
    let mut repository = Repository::new(settings);
    let report = repository.apply("fuzz.yaml", &documents, &services);
    report.rejected.iter().for_each(|error| assert!(!error.to_string().is_empty()));
    let peers = PEERS.iter().enumerate().map(|(nth, texts)| {
        let labels = Arc::new(Labels::parse(texts.iter().copied()).expect("they are good"));
        (IdentityId(nth as u32 + 300), PeerFacts { labels, ..PeerFacts::default() })
    });
    let mut view = IdentityView::default();
    let subjects: Vec<_> = peers
        .map(|(id, facts)| {
            let labels = Arc::clone(&facts.labels);
            view.insert(id, facts);
            Subject { labels, named_ports: [("web".to_owned(), [(6, 80)].into())].into() }
        })
        .collect();
    for subject in &subjects {
        let resolved = repository.resolve(subject, &view);
        let most = usize::try_from(repository.settings().rows_max).unwrap_or(usize::MAX);
        rules::fit(&Default::default(), &resolved.rows, most);
    }
    repository.status(&subjects, &view);
    repository.cidrs();
    let again = repository.apply("fuzz.yaml", &documents, &services);
    assert!(!again.changed, "the same documents change something");
    repository.apply("fuzz.yaml", &Ok(Vec::new()), &services);
    assert_eq!(repository.policies().count(), 0, "of a file that is gone something stays");
}

/// Services, slices, Endpoints, Ingresses and pods with ports of their node.
pub fn services(data: &[u8]) {
    documents(data).into_iter().for_each(|it| service_cache::fuzzing::documents(&it));
}

/// Pods, namespaces and nodes.
pub fn workloads(data: &[u8]) {
    documents(data).into_iter().for_each(|it| workloads::fuzzing::documents(&it));
}

/// A pair of the store, the key on the first line: whose an address is, an identity, a node, a cluster
/// or a service of one.
pub fn pairs(data: &[u8]) {
    let mut parts = data.splitn(2, |byte| *byte == b'\n');
    let key = parts.next().and_then(|key| std::str::from_utf8(key).ok()).unwrap_or_default();
    let value = parts.next().unwrap_or_default();
    let pair = Pair { key: key.to_owned(), value: value.to_vec() };
    if let Ok((prefix, whose)) = Whose::read(&pair, ADDRESSES) {
        assert_eq!(prefix, prefix.trunc(), "bits beyond the prefix");
        assert_ne!(whose.id, IdentityId::UNKNOWN, "whose it is must be known");
        whose.owner(key, &mut SharedPorts::default());
    }
    if let Some((_, Entry::Labels(labels))) = read_pair(Change::Put(pair.clone()), IDENTITIES) {
        let text = labels.sorted_text();
        let again = Labels::parse(text.split_terminator(';'));
        assert_eq!(again.as_ref(), Ok(&*labels), "labels are written as they are read");
    }
    read_pair(Change::Delete(key.to_owned()), IDENTITIES);
    remote_nodes::fuzzing::pair(&pair);
    clustermesh::fuzzing::pair(&pair);
}

/// Objects of the cluster about nodes, endpoints and identities.
pub fn objects(data: &[u8]) {
    let own = "192.0.2.1".parse().expect("it is an address");
    let (mut addresses, mut shared) = (PodAddresses::default(), SharedPorts::default());
    let documents = values(data).unwrap_or_default();
    for object in &documents {
        let text = |name: &str| object["metadata"][name].as_str().unwrap_or_default().to_owned();
        let key = ObjectKey { namespace: text("namespace"), name: text("name") };
        let node = ApiObject::of_server("Node", "v1", &object.to_string(), Readership::Agent);
        let node = node.ok().and_then(ApiObject::into_node).unwrap_or_default();
        PodCidrs::of_node(&node, true);
        PodCidrs::of_cilium_node(object);
        remote_nodes::fuzzing::object(&key.name, &node, object);
        publish::fuzzing::objects(&node, object, documents.first().unwrap_or(&Value::Null));
        read_object((key.clone(), Some(object.clone().into())), ClusterId(0));
        addresses.take(key, Some(object.clone().into()), own, ClusterId(0), &mut shared);
    }
    for object in &documents {
        let text = |name: &str| object["metadata"][name].as_str().unwrap_or_default().to_owned();
        let key = ObjectKey { namespace: text("namespace"), name: text("name") };
        addresses.take(key, None, own, ClusterId(0), &mut shared);
    }
}

/// Texts of flags, paths and members, one a line.
pub fn texts(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    for line in text.lines() {
        if let Ok(label) = line.parse::<Label>() {
            assert_eq!(label.to_string().parse().as_ref(), Ok(&label), "{line:?}");
        }
        if let Ok(mac) = line.parse::<Mac>() {
            assert_eq!(mac.to_string().parse(), Ok(mac));
        }
        if let Ok(at) = line.parse::<L4Address>() {
            assert_eq!(at.to_string().parse(), Ok(at), "{line:?}");
        }
        let _ = (line.parse::<EndpointReference>(), line.parse::<DevicePattern>());
        SelectorKey::parse(line);
    }
    if let Ok(labels) = Labels::parse(text.lines()) {
        if let Ok(filter) = LabelFilter::new(text.lines()) {
            let (counted, others) = filter.split(&labels);
            assert_eq!(counted.iter().count() + others.iter().count(), labels.iter().count());
        }
    } else {
        let _ = LabelFilter::new(text.lines());
    }
}

#[cfg(test)]
mod tests;
