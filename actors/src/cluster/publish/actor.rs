//! The actor that publishes this node. It decides when each item is compared and written, and when
//! a failed write is tried again. What an item has to say is computed in the modules beside it.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{Hash, Hasher},
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use serde::Serialize;

use super::{
    PublishSettings, PublisherMsg, Unpublished,
    answers::PublisherAnswer,
    item::Item,
    known::PublishSources,
    messages::{PublishResult, WriteAttempt},
    node::DesiredNodeObject,
};
use crate::{
    cluster::backoff::Backoff,
    endpoints::{
        endpoint::EndpointView,
        supervisor::{EndpointChange, EndpointsMsg},
    },
    host::{AskError, Behaviour, Cx, Lent, Ref, Survives},
    model::{Labels, Timestamp},
    ports::{Cluster, ClusterError, ObjectWrite, Verb},
    restore::RestoreMsg,
};

/// Writes under way at once.
const WRITES_MAX: usize = 4;
/// How long a write may take; the port notices itself when nothing comes any more.
const WRITE_PATIENCE: Duration = Duration::from_secs(120);
/// How long restored endpoints are waited for before it is asked again: as long as it takes.
const PROGRAMMED_PATIENCE: Duration = Duration::from_secs(24 * 3600);
/// How long the supervisor of endpoints may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Whom the publisher talks to.
#[derive(Clone)]
pub struct PublisherPeers {
    /// The API server.
    pub cluster: Rc<dyn Cluster>,
    /// The supervisor of restoring.
    pub restore: Ref<RestoreMsg>,
    /// The supervisor of endpoints.
    pub endpoints: Ref<EndpointsMsg>,
}

/// Keeps true what this node says of itself in the cluster.
pub struct Publisher {
    peers: PublisherPeers,
    /// Outlive a crash: they change.
    settings: Lent<PublishSettings>,
    /// Outlives a crash: it is told only once.
    memory: Lent<PublishSources>,
    /// What is to be looked at.
    due: BTreeSet<Item>,
    /// Writes under way, and whether to look at it once more when they have ended.
    writing: BTreeMap<Item, bool>,
    failed: BTreeMap<Item, Failure>,
    /// How long the server is left alone.
    server: Backoff,
    writes: u64,
}

struct Failure {
    why: String,
    /// How long it is left alone.
    backoff: Backoff,
    tries: u32,
}

/// What the publisher shows of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PublisherView {
    /// Endpoints of this node that have a pod.
    pub endpoints: usize,
    /// Whether restored endpoints and the node are programmed.
    pub programmed: bool,
    /// Writes under way.
    pub writing: usize,
    /// Writes that the server took in this life of the actor.
    pub writes: u64,
    /// What could not be written, and why.
    pub failed: BTreeMap<String, String>,
}

impl Publisher {
    /// Makes each life of the publisher.
    pub fn factory(
        peers: impl Fn() -> PublisherPeers + 'static,
        settings: PublishSettings,
    ) -> impl FnMut() -> Self + 'static {
        let seed = settings.seed;
        let settings = Survives::new(settings);
        let memory = Survives::new(PublishSources::default());
        move || Self {
            peers: peers(),
            server: Backoff::new(seed, "publisher"),
            settings: settings.lend(),
            memory: memory.lend(),
            due: BTreeSet::new(),
            writing: BTreeMap::new(),
            failed: BTreeMap::new(),
            writes: 0,
        }
    }

    fn await_programmed(&self, cx: &mut Cx<'_, Self>) {
        cx.ask(
            &self.peers.restore,
            PROGRAMMED_PATIENCE,
            "restored endpoints and the node's addresses to be programmed",
            RestoreMsg::AwaitProgrammed,
            PublisherAnswer::Programmed,
        );
    }

    /// The datapath does what it is to do. CiliumEndpoints of endpoints that did not come back go,
    /// once it is asked which there are; not if nobody looked for them.
    fn programmed(&mut self, cx: &mut Cx<'_, Self>, answer: Result<bool, AskError>) {
        let Ok(restored) = answer else { return self.await_programmed(cx) };
        self.memory.programmed = true;
        self.due.extend(Item::OF_NODE);
        if restored {
            self.ask_all(cx);
        }
    }

    fn ask_all(&self, cx: &mut Cx<'_, Self>) {
        let labels = Labels::default();
        let list = |reply| EndpointsMsg::List { labels, reply };
        let why = "all endpoints, before those of pods that are gone are removed";
        cx.ask(&self.peers.endpoints, PATIENCE, why, list, PublisherAnswer::All);
    }

    fn all(&mut self, cx: &mut Cx<'_, Self>, answer: Result<Vec<Arc<EndpointView>>, AskError>) {
        let Ok(views) = answer else { return self.ask_all(cx) };
        let memory = &mut *self.memory;
        memory.endpoints_are(views);
        memory.collects = true;
        self.due.extend(memory.endpoint_items());
    }

    /// Writes what is due, a few at a time.
    fn proceed(&mut self, cx: &mut Cx<'_, Self>) {
        while !self.server.is_pausing() && self.writing.len() < WRITES_MAX {
            let Some(item) = self.due.pop_first() else { return };
            if let Some(again) = self.writing.get_mut(&item) {
                *again = true;
            } else if self.failed.get(&item).is_none_or(|failure| !failure.backoff.is_pausing()) {
                self.write(cx, item);
            }
        }
    }

    fn write(&mut self, cx: &mut Cx<'_, Self>, item: Item) {
        let memory = &mut *self.memory;
        let now = Timestamp::from_nanos(cx.wall()).0;
        let desired = memory.desired(&item, &self.settings, &now);
        let Some(desired) = desired else {
            memory.reported.remove(&item);
            self.failed.remove(&item);
            return;
        };
        let mark = mark(&desired);
        // It was written already: that will be seen, or the server does not keep it as it was given.
        if memory.reported.get(&item) == Some(&mark) {
            return;
        }
        let verb = desired.verb;
        let (resource, key) = item.place(&self.settings.node_name);
        let attempt =
            WriteAttempt { item: item.clone(), mark, removes: matches!(verb, Verb::Delete { .. }) };
        let why = format!("{item} to be written");
        let then = move |answer| PublisherAnswer::Written(attempt, answer);
        let reply = cx.expect("cluster", WRITE_PATIENCE, why, then);
        self.writing.insert(item, false);
        self.peers.cluster.write(ObjectWrite { resource, key, verb }, reply);
    }

    fn written(&mut self, cx: &mut Cx<'_, Self>, attempt: WriteAttempt, outcome: PublishResult) {
        let WriteAttempt { item, mark, removes } = attempt;
        if self.writing.remove(&item) == Some(true) {
            self.due.insert(item.clone());
        }
        let outcome = ClusterError::of(outcome);
        match outcome {
            Err(ClusterError::NotFound(_)) if removes => self.taken(item, mark),
            Ok(()) => self.taken(item, mark),
            Err(error) => self.refused(cx, item, error),
        }
    }

    fn taken(&mut self, item: Item, mark: u64) {
        self.writes += 1;
        self.server.succeeded();
        if let Some(failure) = self.failed.remove(&item) {
            tracing::info!(what = %item, tries = failure.tries, "is said in the cluster at last");
        }
        self.memory.reported.insert(item, mark);
    }

    /// Who is down, busy or refuses does so for all; anything else is about that object.
    fn refused(&mut self, cx: &mut Cx<'_, Self>, item: Item, error: ClusterError) {
        let name = item.to_string();
        let failure = self.failed.entry(item.clone()).or_insert_with(|| Failure {
            why: String::new(),
            backoff: Backoff::new(self.settings.seed, &name),
            tries: 0,
        });
        failure.tries += 1;
        failure.why = error.to_string();
        let tries = failure.tries;
        if tries.is_power_of_two() {
            tracing::warn!(what = name, %error, tries, "is not said in the cluster; trying again");
        }
        let why = format!("{name}: {error}; tried {tries} times, and again after this");
        let at_least = match &error {
            ClusterError::Unreachable(_) | ClusterError::Unknown(_) | ClusterError::Refused(_) => {
                Duration::ZERO
            }
            ClusterError::Busy { after, .. } => *after,
            _ => {
                let pause = failure.backoff.failed(Duration::ZERO);
                failure.backoff.pause(cx, pause, why, move || PublisherAnswer::Retry(item));
                return;
            }
        };
        self.due.insert(item);
        if !self.server.is_pausing() {
            let pause = self.server.failed(at_least);
            self.server.pause(cx, pause, why, || PublisherAnswer::Rested);
        }
    }

    fn unpublished(&self) -> Vec<Unpublished> {
        let failed = self.failed.iter().map(|(item, failure)| Unpublished {
            what: item.to_string(),
            tries: failure.tries,
            why: failure.why.clone(),
        });
        failed.chain(self.memory.disputes(&self.settings)).collect()
    }
}

/// Stands for what is desired and what is there.
fn mark(desired: &DesiredNodeObject) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    (&desired.what, &desired.there).hash(&mut hasher);
    hasher.finish()
}

impl Behaviour for Publisher {
    type Msg = PublisherMsg;
    type Answer = PublisherAnswer;
    type Observed = PublisherView;

    fn started(&mut self, cx: &mut Cx<'_, Self>) {
        let memory = &*self.memory;
        let (programmed, collects) = (memory.programmed, memory.collects);
        self.due = Item::OF_NODE.into_iter().chain(memory.endpoint_items()).collect();
        match programmed && collects {
            // What ended the run before may have been news of one.
            true => self.ask_all(cx),
            false => self.await_programmed(cx),
        }
        self.proceed(cx);
    }

    fn handle(&mut self, msg: PublisherMsg, cx: &mut Cx<'_, Self>) {
        match msg {
            PublisherMsg::Objects { feed, objects, defined } => {
                let due = self.memory.objects(feed, objects, defined, &self.settings);
                self.due.extend(due);
            }
            PublisherMsg::Endpoint(EndpointChange::Is(view)) => {
                self.due.extend(self.memory.endpoint(view));
            }
            PublisherMsg::Address(address) => {
                self.settings.address = address;
                let memory = &*self.memory;
                self.due.extend(Item::OF_NODE.into_iter().chain(memory.endpoint_items()));
            }
            PublisherMsg::Health(addresses) => {
                self.settings.health = Some(addresses);
                self.due.insert(Item::CiliumNode);
            }
            PublisherMsg::Endpoint(EndpointChange::Gone(id)) => {
                self.due.extend(self.memory.gone(id))
            }
            PublisherMsg::Show(reply) => reply.send(self.unpublished()),
        }
        self.proceed(cx);
    }

    fn answered(&mut self, answer: PublisherAnswer, cx: &mut Cx<'_, Self>) {
        match answer {
            PublisherAnswer::Programmed(answer) => self.programmed(cx, answer),
            PublisherAnswer::All(answer) => self.all(cx, answer),
            PublisherAnswer::Written(attempt, outcome) => self.written(cx, attempt, outcome),
            PublisherAnswer::Rested => self.server.over(),
            PublisherAnswer::Retry(item) => {
                if let Some(failure) = self.failed.get_mut(&item) {
                    failure.backoff.over();
                }
                self.due.insert(item);
            }
        }
        self.proceed(cx);
    }

    fn observe(&self) -> PublisherView {
        let memory = &*self.memory;
        let failed = self.failed.iter();
        PublisherView {
            endpoints: memory.endpoint_count(),
            programmed: memory.programmed,
            writing: self.writing.len(),
            writes: self.writes,
            failed: failed.map(|(item, failure)| (item.to_string(), failure.why.clone())).collect(),
        }
    }
}
