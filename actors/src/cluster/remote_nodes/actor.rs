//! The actor that owns what is known of the cluster's nodes: it merges what stores and objects
//! say, keeps the result in the ipcache, and announces this node in the store.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
    time::Duration,
};

use ipnet::IpNet;

use super::{
    NodeEntry, NodeError, RemoteNodesList, RemoteNodesMsg, RemoteNodesSource, RemoteNodesView,
    announced::Announced,
    answers::RemoteNodesAnswer,
    entry::{NodeAddress, Seat, of_node},
    numbers::NodeIdentities,
    objects::NodeObjects,
    reported::ReportedNodes,
};
use crate::{
    cluster::{
        kvstore::{NODES, SessionMsg, Update},
        origins::{ClusterOrigin, Clusters, Reported},
    },
    endpoints::ipam::Pools,
    host::{Behaviour, Cx, Lent, Ref, Retry, Survives},
    model::{Addresses, ApiObject, ClusterId, Feed, IdentityId, Labels, NodeKey},
    node::routes::RoutesMsg,
    policy::{identity::IdentityMsg, ipcache::IpcacheMsg, rules::PolicyMsg},
    ports::{Change, ObjectKey, Pair},
};

/// How long somebody else may have this node's name in the store before this node takes it back:
/// two nodes of one name must not outdo each other as fast as they can.
const CONTEND_AFTER: Duration = Duration::from_secs(10);
/// Of nodes that have no CiliumNode so many are named.
const PLAIN_NAMED: usize = 3;

/// Whom this actor talks to.
#[derive(Clone)]
pub struct RemoteNodesPeers {
    /// The owner of the ipcache.
    pub ipcache: Ref<IpcacheMsg>,
    /// The owner of identities.
    pub identities: Ref<IdentityMsg>,
    /// The owner of the policy.
    pub policy: Ref<PolicyMsg>,
    /// The owner of the lease, where nodes meet in a store.
    pub session: Option<Ref<SessionMsg>>,
    /// The owner of the ways to other nodes.
    pub routes: Ref<RoutesMsg>,
}

/// What this node knows of itself.
#[derive(Clone, Debug)]
pub struct RemoteNodesSettings {
    /// Its cluster and its name.
    pub key: NodeKey,
    /// Its cluster's number.
    pub cluster_id: ClusterId,
    /// Whether other clusters are read, too.
    pub meshed: bool,
    /// Whether policies tell other nodes apart by their labels.
    pub by_labels: bool,
    /// The addresses by which others reach it.
    pub addresses: Addresses,
    /// The address that its pods route through.
    pub router: Addresses,
    /// Addresses of its pods.
    pub pools: Pools,
    /// All prefixes of its pods, where they are of several pools.
    pub own_prefixes: BTreeSet<IpNet>,
    /// Addresses of its health endpoint.
    pub health: Addresses,
    /// Which boot of the machine this is.
    pub boot_id: String,
    /// Whether its Node in Kubernetes says more.
    pub has_node: bool,
}

/// What outlives a crash: it is said only once.
pub(super) struct RemoteNodesState {
    pub(super) reported: ReportedNodes,
    pub(super) numbers: NodeIdentities,
    others: Clusters<Reported<NodeKey, ()>>,
    /// By which objects nodes of this cluster are known.
    objects: NodeObjects,
    /// What the owner of the ways to other nodes has not heard.
    pub(super) unheard: Unheard,
    /// What its Node says of it: addresses and labels.
    node: Option<(Vec<NodeAddress>, BTreeMap<String, String>)>,
    /// What an earlier run announced.
    before: Option<NodeEntry>,
    announced: Option<Vec<u8>>,
    /// Somebody else wrote under this node's name.
    usurped: bool,
}

/// What it has not heard.
#[derive(Debug, Default)]
pub(super) struct Unheard {
    pub(super) nodes: BTreeSet<NodeKey>,
    /// It heard that all nodes were named.
    pub(super) told_all: bool,
}

/// The owner of the cluster's nodes on this node.
pub struct RemoteNodes {
    pub(super) peers: RemoteNodesPeers,
    /// Outlive a crash: they change.
    settings: Lent<RemoteNodesSettings>,
    pub(super) state: Lent<RemoteNodesState>,
    /// The step under way, or its pause after it failed.
    pub(super) step: Retry,
    /// Policies can learn of identities.
    pub(super) ready: bool,
}

impl RemoteNodes {
    /// Makes each life of the owner. `mapped` is what an earlier run of the agent mapped, `known` the
    /// identities of labels among it.
    pub fn factory(
        peers: impl Fn() -> RemoteNodesPeers + 'static,
        settings: RemoteNodesSettings,
        mapped: BTreeMap<IpNet, Seat>,
        known: &BTreeMap<IdentityId, Labels>,
    ) -> impl FnMut() -> Self + 'static {
        let state = RemoteNodesState {
            reported: ReportedNodes::inherited(mapped),
            numbers: NodeIdentities::inherited(known),
            others: Clusters::new(settings.meshed),
            objects: NodeObjects::default(),
            unheard: Unheard::default(),
            node: None,
            before: None,
            announced: None,
            usurped: false,
        };
        let (state, settings) = (Survives::new(state), Survives::new(settings));
        move || Self {
            peers: peers(),
            settings: settings.lend(),
            state: state.lend(),
            step: Retry::default(),
            ready: false,
        }
    }

    fn update(&mut self, cx: &mut Cx<'_, Self>, update: Update) {
        let own = self.settings.key.clone();
        let root = format!("{NODES}{}/", own.cluster);
        for change in update.changes {
            let Some(key) = node_of(&change, &root, &own.cluster) else { continue };
            match change {
                Change::Put(pair) if key == own => self.own_named(cx, &pair),
                Change::Delete(_) if key == own => self.reclaim(),
                Change::Put(pair) => self.named(&key, NodeEntry::of_pair(&key, &pair)),
                Change::Delete(_) => self.set(&key, None),
            }
        }
        if update.listed {
            self.listed();
        }
        self.announce();
    }

    /// All nodes of this cluster are known.
    fn listed(&mut self) {
        self.state.reported.listed();
        self.settle();
    }

    fn settle(&mut self) {
        let state = &mut *self.state;
        if state.reported.is_listed() && state.others.all(Reported::is_listed) {
            state.reported.settle();
        }
    }

    fn clusters(&mut self, names: BTreeSet<Arc<str>>) {
        let gone = self.state.others.configure(names);
        for key in gone.iter().flat_map(|(_, nodes)| nodes.keys()) {
            self.set(key, None);
        }
        self.settle();
    }

    /// Another cluster says something of its nodes.
    fn cluster(&mut self, origin: &ClusterOrigin, update: Update) {
        let state = &mut *self.state;
        let Some(nodes) = state.others.of(&origin.cluster) else { return };
        if !nodes.heeds(origin.generation) {
            return;
        }
        let node = |change: Change| {
            let key = node_of(&change, &origin.nodes, &origin.cluster)?;
            nodes.set(key.clone(), matches!(change, Change::Put(_)).then_some(()));
            Some((key, change))
        };
        let changes: Vec<_> = update.changes.into_iter().filter_map(node).collect();
        let gone = if update.listed { nodes.listed() } else { BTreeSet::new() };
        for (key, change) in changes {
            match change {
                Change::Put(pair) => self.named(&key, NodeEntry::of_pair(&key, &pair)),
                Change::Delete(_) => self.set(&key, None),
            }
        }
        gone.iter().for_each(|key| self.set(key, None));
        self.settle();
    }

    fn objects(&mut self, feed: Feed, objects: Vec<(ObjectKey, Option<ApiObject>)>, defined: bool) {
        let NodeKey { cluster, name: own } = self.settings.key.clone();
        for (ObjectKey { name, .. }, object) in objects {
            match (feed, object) {
                (Feed::Node, Some(node)) if name == own => {
                    if let Some(node) = node.into_node() {
                        let labels = node.metadata.labels.clone().unwrap_or_default();
                        self.state.node = Some((of_node(&node), labels));
                    }
                }
                // What it said is true until it says something else.
                (Feed::Node, _) => {}
                _ if name == own => {}
                (Feed::Nodes, Some(object)) => {
                    let key = NodeKey { cluster: cluster.clone(), name };
                    if let Some(node) = object.into_node() {
                        let entry = NodeEntry::of_plain_node(&key.name, &node);
                        self.plainly_named(key, Some(entry));
                    }
                }
                (Feed::Nodes, None) => {
                    self.plainly_named(NodeKey { cluster: cluster.clone(), name }, None);
                }
                (_, object) => {
                    let key = NodeKey { cluster: cluster.clone(), name };
                    self.state.objects.set(&key, object.is_some());
                    let plain = self.state.objects.plain(&key);
                    let object = match (object, plain) {
                        (None, Some(plain)) => {
                            self.named(&key, Ok(plain));
                            continue;
                        }
                        (object, _) => object,
                    };
                    match object.map(|it| NodeEntry::of_object(&key.name, &it.into_json())) {
                        Some(entry) => self.named(&key, entry),
                        None => self.set(&key, None),
                    }
                }
            }
        }
        match feed {
            Feed::Node => self.announce(),
            _ if defined => self.listed(),
            _ => {}
        }
    }

    /// A Node of Kubernetes says something of a node: less than its CiliumNode does.
    fn plainly_named(&mut self, key: NodeKey, entry: Option<Result<NodeEntry, NodeError>>) {
        let known = entry.as_ref().and_then(|entry| entry.as_ref().ok()).cloned();
        let state = &mut *self.state;
        if !state.objects.set_plain(&key, known) {
            return;
        }
        match entry {
            Some(entry) => self.named(&key, entry),
            None => self.set(&key, None),
        }
    }

    fn named(&mut self, key: &NodeKey, entry: Result<NodeEntry, NodeError>) {
        match entry {
            Ok(entry) => self.set(key, Some(self.without_own(key, entry))),
            Err(error) => {
                tracing::warn!(%error, "a node of the cluster is not known");
                self.set(key, None);
            }
        }
    }

    /// What is this node's is nobody else's, whoever says so.
    fn without_own(&self, key: &NodeKey, mut entry: NodeEntry) -> NodeEntry {
        let RemoteNodesSettings { addresses, router, .. } = &*self.settings;
        let own: BTreeSet<IpAddr> = addresses.iter().chain(router.iter()).collect();
        entry.addresses.retain(|address| {
            let theirs = !own.contains(&address.ip);
            if !theirs {
                tracing::warn!(node = %key, address = %address.ip, "it names this node's address");
            }
            theirs
        });
        entry
    }

    fn set(&mut self, key: &NodeKey, mut entry: Option<NodeEntry>) {
        let RemoteNodesState { reported, numbers, unheard, .. } = &mut *self.state;
        unheard.note(key);
        if let Some(entry) = entry.as_mut().filter(|_| self.settings.by_labels) {
            entry.identity = numbers.of(entry);
        }
        for prefix in reported.set(key, entry) {
            let nodes = reported.claimants(&prefix);
            tracing::warn!(%prefix, ?nodes, "several nodes name one address; it stays a node's");
        }
    }

    /// Somebody wrote under this node's name: this life, the one before, or another node.
    fn own_named(&mut self, cx: &mut Cx<'_, Self>, pair: &Pair) {
        let state = &mut *self.state;
        match &state.announced {
            None => state.before = NodeEntry::of_pair(&self.settings.key, pair).ok(),
            Some(announced) if *announced == pair.value => state.usurped = false,
            Some(_) if state.usurped => {}
            Some(_) => {
                state.usurped = true;
                cx.after(CONTEND_AFTER, RemoteNodesAnswer::Contend);
            }
        }
    }

    /// What is announced is written again.
    fn reclaim(&self) {
        self.tell_session(SessionMsg::Removed(self.settings.key.in_store()));
    }

    fn contend(&mut self) {
        if std::mem::take(&mut self.state.usurped) {
            let node = &self.settings.key;
            tracing::warn!(%node, "another node has this name in the store; give it another one");
            self.reclaim();
        }
    }

    /// Others reach this node at other addresses from now on.
    fn take_addresses(&mut self, addresses: Addresses) {
        self.settings.addresses = addresses;
        self.announce();
    }

    /// Says in the store where this node is, once that has said what is known there of it.
    fn announce(&mut self) {
        if self.peers.session.is_none() || !self.state.reported.is_listed() {
            return;
        }
        let entry = self.own_entry(&self.state);
        let RemoteNodesSettings { key, cluster_id, boot_id, .. } = &*self.settings;
        let value = Announced::new(key, *cluster_id, &entry, boot_id).to_bytes();
        if self.state.announced.as_ref() != Some(&value) {
            self.state.announced = Some(value.clone());
            let key = self.settings.key.in_store();
            self.tell_session(SessionMsg::Announce(BTreeMap::from([(key, Some(value))])));
        }
    }

    /// What this node is. As long as its Node has not said so, what it said to the run before.
    fn own_entry(&self, state: &RemoteNodesState) -> NodeEntry {
        let RemoteNodesSettings { addresses, router, pools, has_node, .. } = &*self.settings;
        let of = |kind: &'static str, all: Addresses| {
            all.iter().map(move |ip| NodeAddress { kind: kind.to_owned(), ip })
        };
        let before = state.before.as_ref().filter(|_| *has_node);
        let before = before.map(|it| (it.addresses.clone(), it.labels.clone()));
        let (mut all, labels) = state.node.clone().or(before).unwrap_or_default();
        all.retain(|address| address.kind != "CiliumInternalIP");
        if all.is_empty() {
            all.extend(of("InternalIP", *addresses));
        }
        all.extend(of("CiliumInternalIP", *router));
        let home = |it: &IpNet| {
            pools.ipv4.map(IpNet::from) == Some(*it) || pools.ipv6.map(IpNet::from) == Some(*it)
        };
        let more = self.settings.own_prefixes.iter().copied().filter(|it| !home(it));
        NodeEntry {
            addresses: all,
            pools: *pools,
            more_prefixes: more.collect(),
            health: self.settings.health,
            labels,
            ..NodeEntry::default()
        }
    }

    fn tell_session(&self, msg: SessionMsg) {
        if let Some(session) = &self.peers.session
            && let Err(refused) = session.tell(msg)
        {
            tracing::error!(%refused, "this node is not announced as it is");
        }
    }

    fn view(&self) -> RemoteNodesView {
        let state = &*self.state;
        let (mapped, open) = state.reported.counts();
        let plain = state.objects.only_plain().take(PLAIN_NAMED);
        RemoteNodesView {
            known: state.reported.nodes().len(),
            mapped,
            open,
            synced: state.reported.is_listed(),
            announced: state.announced.is_some(),
            usurped: state.usurped,
            clusters: state.others.iter().map(|(name, it)| (Arc::clone(name), it.len())).collect(),
            contested: state.reported.contested(),
            plain: state.objects.only_plain().count(),
            plain_named: plain.map(|key| key.name.clone()).collect(),
        }
    }

    fn list(&self) -> RemoteNodesList {
        let source = match self.peers.session {
            Some(_) => RemoteNodesSource::Store,
            None => RemoteNodesSource::Objects,
        };
        RemoteNodesList { source, nodes: self.state.reported.nodes().clone() }
    }
}

/// The node that a change is about; what names none is reported.
fn node_of(change: &Change, root: &str, cluster: &str) -> Option<NodeKey> {
    let key = NodeKey::of_store(change.key(), root, cluster);
    if key.is_none() {
        tracing::warn!(error = %NodeError::Key(change.key().to_owned()), "no node");
    }
    key
}

impl Behaviour for RemoteNodes {
    type Msg = RemoteNodesMsg;
    type Answer = RemoteNodesAnswer;
    type Observed = RemoteNodesView;

    fn started(&mut self, cx: &mut Cx<'_, Self>) {
        if self.state.usurped {
            cx.after(CONTEND_AFTER, RemoteNodesAnswer::Contend);
        }
        if self.settings.by_labels {
            self.await_policies(cx);
        }
        self.proceed(cx);
    }

    fn handle(&mut self, msg: RemoteNodesMsg, cx: &mut Cx<'_, Self>) {
        match msg {
            RemoteNodesMsg::Update(update) => self.update(cx, update),
            RemoteNodesMsg::Clusters(names) => self.clusters(names),
            RemoteNodesMsg::Cluster(origin, update) => self.cluster(&origin, update),
            RemoteNodesMsg::Objects { feed, objects, defined } => {
                self.objects(feed, objects, defined)
            }
            RemoteNodesMsg::OwnAddresses(addresses) => self.take_addresses(addresses),
            RemoteNodesMsg::OwnPrefixes(prefixes) => {
                self.settings.own_prefixes = prefixes;
                self.announce();
            }
            RemoteNodesMsg::OwnHealth(addresses) => {
                self.settings.health = addresses;
                self.announce();
            }
            RemoteNodesMsg::List(reply) => reply.send(self.list()),
            RemoteNodesMsg::Show(reply) => reply.send(self.view()),
        }
        self.tell_routes();
        self.proceed(cx);
    }

    fn answered(&mut self, answer: RemoteNodesAnswer, cx: &mut Cx<'_, Self>) {
        match answer {
            RemoteNodesAnswer::PoliciesReady(Ok(())) => self.ready = true,
            RemoteNodesAnswer::PoliciesReady(Err(_)) => self.await_policies(cx),
            RemoteNodesAnswer::Adopted(strangers, answer) => self.adopted(cx, strangers, answer),
            RemoteNodesAnswer::Learned(ids, answer) => self.learned(cx, ids, answer),
            RemoteNodesAnswer::Removed(rows, answer) => self.removed(cx, rows, answer),
            RemoteNodesAnswer::Reported(rows, answer) => self.reported(cx, rows, answer),
            RemoteNodesAnswer::Again => {
                self.step.over();
                self.state.reported.resume();
            }
            RemoteNodesAnswer::Contend => self.contend(),
        }
        self.tell_routes();
        self.proceed(cx);
    }

    fn observe(&self) -> RemoteNodesView {
        self.view()
    }
}
