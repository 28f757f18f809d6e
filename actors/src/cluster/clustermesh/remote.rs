//! The actor that reads one other cluster: first its configuration, then all it has. It has
//! watchers tell the owners of addresses and nodes, and passes services on itself.

mod answers;

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash, Hasher},
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use serde::Serialize;

use answers::RemoteAnswer;

use super::{MeshMsg, view::RemoteView};
use crate::{
    cluster::{
        addresses::AddressesMsg,
        kvstore::{Followed, Update, WatcherMsg},
        origins::{
            CLUSTER_CONFIG, ClusterConfig, ClusterOrigin, ConfigError, RemoteKind, Reported,
        },
        remote_nodes::RemoteNodesMsg,
    },
    host::{
        AskError, Behaviour, Cx, Full, Lane, Lent, Message, Ref, Reply, Retry, Survives, gather,
    },
    ports::{Change, Way},
    services::service_cache::{RemoteChange, RemoteService, ServicesMsg},
};

/// How long the supervisor may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// After that long what it did not answer is asked again.
const AGAIN_AFTER: Duration = Duration::from_secs(5);
/// How soon a full mailbox is tried again.
const RETELL_AFTER: Duration = Duration::from_millis(100);

/// What the reader of another cluster can be told.
pub(super) enum RemoteMsg {
    /// The cluster is reached in another way.
    Way(Way),
    /// What it says of itself by the way of that number.
    Config(u64, Update),
    /// What its store says of services.
    Services(Rc<ClusterOrigin>, Update),
    /// It is not configured any more.
    Stop,
    /// Show how it stands.
    Show(Reply<RemoteView>),
}

impl Message for RemoteMsg {
    fn kind(&self) -> &'static str {
        match self {
            Self::Way(_) => "Way",
            Self::Config(..) => "Config",
            Self::Services(..) => "Services",
            Self::Stop => "Stop",
            Self::Show(_) => "Show",
        }
    }

    /// One lane for all: what was said last counts.
    fn lane(&self) -> Lane {
        Lane::Request
    }
}

/// Whom the reader talks to.
#[derive(Clone)]
pub(super) struct RemotePeers {
    pub(super) mesh: Ref<MeshMsg>,
    pub(super) addresses: Ref<AddressesMsg>,
    pub(super) nodes: Ref<RemoteNodesMsg>,
    pub(super) services: Ref<ServicesMsg>,
}

/// What outlives a crash.
struct RemoteClusterState {
    way: Way,
    /// How many ways there were.
    ways: u64,
    /// How often reading all of it began.
    generation: u64,
    /// Who follows what the cluster says of itself.
    config_watcher: Option<Ref<WatcherMsg>>,
    /// What it said last, and whether it is read like that.
    config: Option<ClusterConfig>,
    claiming: Option<ClusterConfig>,
    watchers: Vec<Ref<WatcherMsg>>,
    /// Watchers that are to stop. One that crashes over that has not heard it.
    leaving: Vec<Ref<WatcherMsg>>,
    /// It is not configured any more.
    over: bool,
    problem: Option<ConfigError>,
    services: Reported<(String, String), RemoteService>,
    /// Changes of which the owner of services has not heard, in order, and whether they make the list
    /// whole.
    untold: (Vec<RemoteChange>, bool),
}

/// Reads another cluster.
pub(super) struct RemoteCluster {
    peers: RemotePeers,
    cluster: Arc<str>,
    seed: u64,
    memory: Lent<RemoteClusterState>,
    /// What a full mailbox did not take is told again.
    retelling: Retry,
}

/// What it shows of itself.
#[derive(Debug, Serialize)]
pub(super) struct RemoteClusterStatus {
    generation: u64,
    config: Option<ClusterConfig>,
    problem: Option<String>,
    services: BTreeMap<String, RemoteService>,
}

impl RemoteCluster {
    pub(super) fn factory(
        peers: RemotePeers,
        cluster: Arc<str>,
        way: Way,
        seed: u64,
    ) -> impl FnMut() -> Self + 'static {
        let mut hasher = DefaultHasher::new();
        (seed, &cluster).hash(&mut hasher);
        let seed = hasher.finish();
        let memory = Survives::new(RemoteClusterState {
            way,
            ways: 0,
            generation: 0,
            config_watcher: None,
            config: None,
            claiming: None,
            watchers: Vec::new(),
            leaving: Vec::new(),
            over: false,
            problem: None,
            services: Reported::default(),
            untold: Default::default(),
        });
        move || Self {
            peers: peers.clone(),
            cluster: Arc::clone(&cluster),
            seed,
            memory: memory.lend(),
            retelling: Retry::default(),
        }
    }

    /// Begins to read the store anew. What was known stays until it has listed what there is.
    fn begin(&mut self, cx: &mut Cx<'_, Self>) {
        self.end();
        self.look_after(cx);
        let memory = &mut *self.memory;
        memory.ways += 1;
        (memory.config, memory.claiming) = (None, None);
        let way = memory.ways;
        let key = format!("{CLUSTER_CONFIG}{}", self.cluster);
        let followed = Followed::new(&memory.way.store, key);
        let name = format!("clustermesh {} config", self.cluster);
        let message = move |update| RemoteMsg::Config(way, update);
        let watcher = followed.tell(cx.host(), name, self.seed, cx.me(), message);
        memory.config_watcher = Some(watcher);
    }

    /// Ends the reading; who did it is looked after then.
    fn end(&mut self) {
        let RemoteClusterState { config_watcher, watchers, leaving, .. } = &mut *self.memory;
        leaving.extend(config_watcher.take());
        leaving.append(watchers);
    }

    /// Has those stop who are to, and in the end this one, if it is over.
    fn look_after(&mut self, cx: &mut Cx<'_, Self>) {
        let RemoteClusterState { leaving, over, .. } = &mut *self.memory;
        dismiss(leaving, || WatcherMsg::Stop);
        match leaving.is_empty() {
            true if *over => cx.stop(),
            true => {}
            false => drop(cx.after(AGAIN_AFTER, RemoteAnswer::Dismiss)),
        }
    }

    fn config(&mut self, cx: &mut Cx<'_, Self>, update: Update) {
        let key = format!("{CLUSTER_CONFIG}{}", self.cluster);
        // One that goes was removed by mistake, or its cluster ends: that stops saying anything.
        let mut said = update.changes.into_iter().filter_map(|change| match change {
            Change::Put(pair) if pair.key == key => Some(ClusterConfig::read(&pair)),
            Change::Put(_) | Change::Delete(_) => None,
        });
        let memory = &mut *self.memory;
        match said.next_back() {
            Some(Ok(config)) if memory.config.as_ref() == Some(&config) => memory.problem = None,
            Some(Ok(config)) => {
                self.claim(cx, config);
            }
            Some(Err(error)) => Self::refuse(memory, &self.cluster, error),
            None if update.listed && memory.config.is_none() && memory.claiming.is_none() => {
                let error = ConfigError::Missing(self.cluster.to_string());
                Self::refuse(memory, &self.cluster, error);
            }
            None => {}
        }
    }

    /// What it said before is read on.
    fn refuse(memory: &mut RemoteClusterState, cluster: &str, error: ConfigError) {
        if memory.problem.as_ref() != Some(&error) {
            tracing::error!(cluster, %error, "cluster is not read");
        }
        memory.problem = Some(error);
    }

    fn claim(&mut self, cx: &mut Cx<'_, Self>, config: ClusterConfig) {
        let memory = &mut *self.memory;
        memory.claiming = Some(config.clone());
        let (cluster, id) = (Arc::clone(&self.cluster), config.id);
        let way = memory.ways;
        let mesh = self.peers.mesh.clone();
        cx.ask(
            &mesh,
            PATIENCE,
            format!("whether {cluster} can have the number {id}"),
            |reply| MeshMsg::Claim { cluster, id, reply },
            move |answer| RemoteAnswer::Claimed(way, config, answer),
        );
    }

    fn claimed(
        &mut self,
        cx: &mut Cx<'_, Self>,
        config: ClusterConfig,
        answer: Result<Result<(), ConfigError>, AskError>,
    ) {
        let memory = &mut *self.memory;
        if memory.claiming.as_ref() != Some(&config) {
            return;
        }
        match answer {
            Ok(Ok(())) => {
                (memory.claiming, memory.problem) = (None, None);
                self.read(cx, config);
            }
            // The other one may go, or get another number.
            Ok(Err(error)) => {
                Self::refuse(memory, &self.cluster, error);
                cx.after(AGAIN_AFTER, RemoteAnswer::Again(memory.ways));
            }
            Err(_) => {
                cx.after(AGAIN_AFTER, RemoteAnswer::Again(memory.ways));
            }
        }
    }

    fn again(&mut self, cx: &mut Cx<'_, Self>) {
        let claiming = self.memory.claiming.clone();
        if let Some(config) = claiming {
            self.claim(cx, config);
        }
    }

    /// Follows all that the cluster says.
    fn read(&mut self, cx: &mut Cx<'_, Self>, config: ClusterConfig) {
        let RemoteClusterState { watchers, leaving, .. } = &mut *self.memory;
        leaving.append(watchers);
        self.look_after(cx);
        let memory = &mut *self.memory;
        let (host, me) = (cx.host(), cx.me());
        memory.generation += 1;
        let generation = memory.generation;
        // Its own keys are followed as before.
        let origin = Rc::new(ClusterOrigin::new(&self.cluster, &config, generation));
        let RemotePeers { addresses, nodes, .. } = &self.peers;
        for kind in RemoteKind::ALL {
            let followed = Followed::new(&memory.way.store, origin.prefix(kind));
            let followed = followed.once_there_is(origin.canary(kind, &config));
            let origin = Rc::clone(&origin);
            let name = format!("clustermesh {} {}", self.cluster, kind.name());
            let seed = self.seed.wrapping_add(1 + kind as u64);
            let watcher = match kind {
                RemoteKind::Identities => {
                    followed.tell(host, name, seed, addresses, move |update| {
                        AddressesMsg::ClusterIdentities(Rc::clone(&origin), update)
                    })
                }
                RemoteKind::Addresses => {
                    followed.tell(host, name, seed, addresses, move |update| {
                        AddressesMsg::ClusterAddresses(Rc::clone(&origin), update)
                    })
                }
                RemoteKind::Nodes => followed.tell(host, name, seed, nodes, move |update| {
                    RemoteNodesMsg::Cluster(Rc::clone(&origin), update)
                }),
                RemoteKind::Services => followed.tell(host, name, seed, me, move |update| {
                    RemoteMsg::Services(Rc::clone(&origin), update)
                }),
            };
            memory.watchers.push(watcher);
        }
        memory.config = Some(config);
    }

    fn services(&mut self, cx: &mut Cx<'_, Self>, origin: &ClusterOrigin, update: Update) {
        let memory = &mut *self.memory;
        let RemoteClusterState { services, untold: (changes, listed), .. } = memory;
        if !services.heeds(origin.generation) {
            return;
        }
        for change in update.changes {
            let Some(key) = RemoteService::key(change.key(), &origin.services) else {
                tracing::warn!(cluster = %self.cluster, key = change.key(), "key of no service");
                continue;
            };
            let service = match &change {
                Change::Put(pair) => {
                    RemoteService::read(pair, &self.cluster, &key).map(Some).inspect_err(|cause| {
                        let what = "service of a cluster is refused, what it was before stays";
                        tracing::error!(cluster = %self.cluster, key = pair.key, cause, "{what}");
                    })
                }
                Change::Delete(_) => Ok(None),
            };
            match &service {
                Ok(service) => services.set(key.clone(), service.clone()),
                Err(_) => services.keep(key.clone()),
            }
            changes.push((key, service));
        }
        if update.listed {
            changes.extend(services.listed().into_iter().map(|key| (key, Ok(None))));
        }
        *listed |= update.listed;
        self.tell_services(cx);
    }

    /// Tells the owner of services what is new; later, if its mailbox is full.
    fn tell_services(&mut self, cx: &mut Cx<'_, Self>) {
        let memory = &mut *self.memory;
        let (changes, listed) = std::mem::take(&mut memory.untold);
        if changes.is_empty() && !listed {
            return;
        }
        let news = ServicesMsg::Remote { cluster: Arc::clone(&self.cluster), changes, listed };
        if let Err(Full { msg: ServicesMsg::Remote { changes, listed, .. }, gone: false }) =
            self.peers.services.tell(news)
        {
            memory.untold = (changes, listed);
            self.retelling.pause_once(cx, RETELL_AFTER, RemoteAnswer::Retell);
        }
    }

    fn show(&self, reply: Reply<RemoteView>) {
        let memory = &*self.memory;
        let config = memory.config.as_ref();
        let view = RemoteView {
            cluster: Arc::clone(&self.cluster),
            id: config.map(|config| config.id),
            cached: config.is_some_and(|config| config.cached),
            synced_canaries: config.is_some_and(|config| config.synced_canaries),
            problem: memory.problem.as_ref().map(ToString::to_string),
            services: memory.services.values().filter(|service| service.shared).count(),
            config: None,
            watchers: BTreeMap::new(),
        };
        let all: Vec<_> = memory.config_watcher.iter().chain(&memory.watchers).cloned().collect();
        gather(&all, WatcherMsg::Show, move |views| {
            let mut views = views.into_iter();
            let config = views.next().flatten();
            let watchers = RemoteKind::ALL.into_iter().zip(views).collect();
            reply.send(RemoteView { config, watchers, ..view });
        });
    }
}

/// Tells those to stop who live, and leaves out those who do not.
pub(super) fn dismiss<M: Message>(them: &mut Vec<Ref<M>>, stop: impl Fn() -> M) {
    them.retain(Ref::is_alive);
    for one in them {
        // A full mailbox: it is told again.
        drop(one.tell(stop()));
    }
}

impl Behaviour for RemoteCluster {
    type Msg = RemoteMsg;
    type Answer = RemoteAnswer;
    type Observed = RemoteClusterStatus;

    fn started(&mut self, cx: &mut Cx<'_, Self>) {
        if self.memory.over {
            self.end();
            return self.look_after(cx);
        }
        if self.memory.config_watcher.is_none() {
            self.begin(cx);
        }
        self.look_after(cx);
        self.again(cx);
        self.tell_services(cx);
    }

    fn handle(&mut self, msg: RemoteMsg, cx: &mut Cx<'_, Self>) {
        // Nobody begins to read for one that is over.
        let is_over = self.memory.over;
        let is_now = |way| !is_over && way == self.memory.ways;
        match msg {
            RemoteMsg::Way(_) if is_over => {}
            RemoteMsg::Way(way) => {
                self.memory.way = way;
                self.begin(cx);
            }
            RemoteMsg::Config(way, update) if is_now(way) => self.config(cx, update),
            RemoteMsg::Config(..) => {}
            RemoteMsg::Services(origin, update) if !is_over => self.services(cx, &origin, update),
            RemoteMsg::Services(..) => {}
            RemoteMsg::Stop => {
                self.memory.over = true;
                self.end();
                self.look_after(cx);
            }
            RemoteMsg::Show(reply) => self.show(reply),
        }
    }

    fn answered(&mut self, answer: RemoteAnswer, cx: &mut Cx<'_, Self>) {
        // Nobody begins to read for one that is over.
        let is_over = self.memory.over;
        let is_now = |way| !is_over && way == self.memory.ways;
        match answer {
            RemoteAnswer::Dismiss => self.look_after(cx),
            RemoteAnswer::Claimed(way, config, answer) if is_now(way) => {
                self.claimed(cx, config, answer);
            }
            RemoteAnswer::Again(way) if is_now(way) => self.again(cx),
            RemoteAnswer::Retell if !is_over => {
                self.retelling.over();
                self.tell_services(cx);
            }
            RemoteAnswer::Claimed(..) | RemoteAnswer::Again(_) | RemoteAnswer::Retell => {}
        }
    }

    fn observe(&self) -> RemoteClusterStatus {
        let memory = &*self.memory;
        let services = memory.services.iter();
        RemoteClusterStatus {
            generation: memory.generation,
            config: memory.config.clone(),
            problem: memory.problem.as_ref().map(ToString::to_string),
            services: services
                .map(|((namespace, name), it)| (format!("{namespace}/{name}"), it.clone()))
                .collect(),
        }
    }
}
