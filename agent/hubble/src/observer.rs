//! What is known of flows, for all who ask: the ring, names, and flows that were decoded lately.

use std::{
    collections::{BTreeMap, BTreeSet},
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use prost::Message;
use tokio::sync::{Notify, Semaphore, watch};

use crate::{
    agent_events::AgentEvents,
    decode,
    messages::{Flow, NamespaceOfCluster, now},
    names::{Names, Snapshot},
    peers::{PeerTerms, Peers},
    ring::{Ring, Stored},
};

/// How many may be answered by streams at a time.
pub const STREAMS_MAX: usize = 128;
/// How many decoded flows are kept for others who ask for the same.
const DECODED_MAX: usize = 512;
/// How old names may be when somebody begins to ask.
const FRESH: Duration = Duration::from_millis(500);
/// How long is waited for newer ones.
const NAMES_PATIENCE: Duration = Duration::from_secs(2);
/// How long a namespace is told of that flows named.
const NAMESPACE_LASTS: u64 = 3600 * 1_000_000_000;

/// Something that comes later.
pub type Later<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Who knows names. What cannot be had is `None`: what was known stays.
pub trait Informant: Send + Sync {
    /// All names.
    fn snapshot(&self) -> Later<'_, Option<Snapshot>>;
    /// The nodes.
    fn peers(&self) -> Later<'_, Option<Peers>>;
}

/// A flow, and its bytes.
pub struct Decoded {
    /// The flow.
    pub flow: Flow,
    /// As it is answered.
    pub bytes: Vec<u8>,
}

/// What is known of flows.
pub struct Observer {
    ring: Arc<Ring>,
    names: Mutex<Names>,
    decoded: Mutex<BTreeMap<u64, Arc<Decoded>>>,
    namespaces: Mutex<BTreeMap<(String, String), u64>>,
    agent_events: Arc<Mutex<AgentEvents>>,
    news: watch::Receiver<u64>,
    started: Instant,
    refreshed: Mutex<Option<Instant>>,
    informant: Box<dyn Informant>,
    peers: watch::Sender<Peers>,
    peer_terms: PeerTerms,
    streams: Arc<Semaphore>,
    /// Rung when somebody meets what has no name yet.
    wanted: Notify,
    /// Rung when the agent says that names changed.
    changed: Notify,
    lost_interval: Duration,
}

impl Observer {
    /// Over a ring, with who knows names.
    pub fn new(
        ring: Arc<Ring>,
        names: Names,
        agent_events: Arc<Mutex<AgentEvents>>,
        news: watch::Receiver<u64>,
        informant: Box<dyn Informant>,
        (peer_terms, lost_interval): (PeerTerms, Duration),
    ) -> Self {
        Self {
            ring,
            names: Mutex::new(names),
            decoded: Mutex::default(),
            namespaces: Mutex::default(),
            agent_events,
            news,
            started: Instant::now(),
            refreshed: Mutex::default(),
            informant,
            peers: watch::channel(Peers::new()).0,
            peer_terms,
            streams: Arc::new(Semaphore::new(STREAMS_MAX)),
            wanted: Notify::new(),
            changed: Notify::new(),
            lost_interval,
        }
    }

    /// The ring.
    pub fn ring(&self) -> &Ring {
        &self.ring
    }

    /// Names, for a moment.
    pub fn names(&self) -> MutexGuard<'_, Names> {
        lock(&self.names)
    }

    /// What the agent said of itself, for a moment.
    pub(crate) fn agent_events(&self) -> MutexGuard<'_, AgentEvents> {
        lock(&self.agent_events)
    }

    /// Changes when there is something new.
    pub fn news(&self) -> watch::Receiver<u64> {
        self.news.clone()
    }

    /// Places for streams.
    pub(crate) fn streams(&self) -> &Arc<Semaphore> {
        &self.streams
    }

    /// How often a stream is told at most that it lost something.
    pub(crate) fn lost_interval(&self) -> Duration {
        self.lost_interval
    }

    /// Since when it runs.
    pub(crate) fn uptime(&self) -> Duration {
        self.started.elapsed()
    }

    /// The nodes, and how they are told.
    pub(crate) fn peers(&self) -> (watch::Receiver<Peers>, PeerTerms) {
        (self.peers.subscribe(), self.peer_terms)
    }

    /// The flow of a record, decoded once for all who ask soon.
    pub fn decode(&self, stored: &Stored) -> Option<Arc<Decoded>> {
        if let Some(known) = lock(&self.decoded).get(&stored.number) {
            return Some(Arc::clone(known));
        }
        let flow = decode::flow(stored, &self.ring, &self.names())?;
        let bytes = flow.encode_to_vec();
        let decoded = Arc::new(Decoded { flow, bytes });
        let mut all = lock(&self.decoded);
        all.insert(stored.number, Arc::clone(&decoded));
        if all.len() > DECODED_MAX {
            all.pop_first();
        }
        Some(decoded)
    }

    /// Asks for names, if a record's are not there.
    pub(crate) fn want_names(&self, stored: &Stored) -> bool {
        let wanted = decode::strangers(stored, &self.names());
        if wanted {
            self.wanted.notify_one();
        }
        wanted
    }

    /// Says that names changed: they are looked up soon.
    pub fn names_changed(&self) {
        self.changed.notify_one();
    }

    /// Waits until somebody meets what has no name; or until names changed, and some time for more that
    /// change with them.
    pub async fn names_wanted(&self, gathering: Duration) {
        let changed = async {
            self.changed.notified().await;
            tokio::time::sleep(gathering).await;
        };
        tokio::select! {
            () = self.wanted.notified() => {}
            () = changed => {}
        }
    }

    /// Has names looked up, unless that was just now.
    pub async fn freshen(&self) {
        let is_fresh = lock(&self.refreshed).is_some_and(|at| at.elapsed() < FRESH);
        if !is_fresh {
            // Who does not answer in time is not waited for: names of before will do.
            let _ = tokio::time::timeout(NAMES_PATIENCE, self.refresh()).await;
        }
    }

    /// Looks names up.
    pub async fn refresh(&self) {
        let Some(snapshot) = self.informant.snapshot().await else { return };
        let (oldest, _) = self.ring.bounds();
        let oldest = self.ring.time(oldest).unwrap_or(0);
        let mut names = self.names();
        names.update(now(), snapshot);
        names.forget_before(oldest);
        drop(names);
        *lock(&self.refreshed) = Some(Instant::now());
        // Those that were decoded just before a name was known.
        lock(&self.decoded).clear();
    }

    /// Looks nodes up.
    pub async fn refresh_peers(&self) {
        let Some(peers) = self.informant.peers().await else { return };
        self.peers.send_if_modified(|known| {
            let is_new = *known != peers;
            *known = peers;
            is_new
        });
    }

    /// Namespaces that flows named within an hour, as far as somebody asked while they were kept; and
    /// those of this node's endpoints.
    pub(crate) fn namespaces(&self) -> Vec<NamespaceOfCluster> {
        let at = now();
        let mut found = BTreeSet::new();
        let (oldest, next) = self.ring.bounds();
        for number in oldest..next {
            let Some(stored) = self.ring.get(number) else { continue };
            let Some(flow) = decode::flow(&stored, &self.ring, &self.names()) else { continue };
            let ends = [flow.source, flow.destination].into_iter().flatten();
            found.extend(ends.map(|end| (end.cluster_name, end.namespace)));
        }
        let names = self.names();
        let cluster = names.node().cluster.clone();
        found.extend(names.namespaces().into_iter().map(|it| (cluster.clone(), it.to_owned())));
        drop(names);
        let mut all = lock(&self.namespaces);
        let named = found.into_iter().filter(|(_, namespace)| !namespace.is_empty());
        all.extend(named.map(|key| (key, at)));
        all.retain(|_, seen| at.saturating_sub(*seen) < NAMESPACE_LASTS);
        let both = all.keys().cloned();
        both.map(|(cluster, namespace)| NamespaceOfCluster { cluster, namespace }).collect()
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
