//! The supervisor of the sources: it starts them, holds back what they tell until that is whole,
//! and has all of them list again when another API server answers.

use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
    time::Duration,
};

use serde::Serialize;

use super::{
    ClusterMsg, Heard, SourceMsg, SourceState, SourceStatus,
    answers::ClusterAnswer,
    listing::Telling,
    peers::ClusterPeers,
    pending::PendingNews,
    source::Source,
    spawn::SOURCE_CAPACITY,
    witness::{KnownServer, SOON, Witness},
};
use crate::{
    cluster::{
        own_prefixes::PodPoolsSettings,
        resources::{further, resources},
        sources::Hearing,
        subscriber::Subscriber,
    },
    host::{AskError, Behaviour, Cx, Lent, Ref, Reply, Retry, Survives, Time},
    model::{ApiObject, Feed},
    mutants::{Mutant, mutated},
    policy::rules::PolicyMsg,
    ports::{ClusterError, ObjectKey, Page, Resource},
};

/// How long a source is waited for before it is asked again: as long as it takes.
const SYNC_PATIENCE: Duration = Duration::from_secs(24 * 3600);
/// How long the first policies may take to be in force before pods are handed on all the same.
const IN_FORCE_PATIENCE: Duration = Duration::from_secs(60);
/// Who is told of all CiliumNodes, not of this node's own alone.
const ALL_NODES: (Feed, Subscriber) = (Feed::CiliumNode, Subscriber::Nodes);
/// How long CiliumNodes are known before Nodes are followed as well, if there is at most one: agents of a
/// cluster that is being installed come one after the other.
const ALONE_AFTER: Duration = Duration::from_secs(60);
/// How long the server may take to say who it is.
const ASK_PATIENCE: Duration = Duration::from_secs(10);
/// How soon a full mailbox is tried again.
const RETRY: Duration = Duration::from_millis(100);

/// How a cluster is followed.
#[derive(Clone, Debug, Default)]
pub struct ClusterSettings {
    /// This node's name in the cluster.
    pub node_name: String,
    /// What pauses are drawn by: another number on every node.
    pub seed: u64,
    /// After that long it is complained of sources that are not synced.
    pub sync_timeout: Duration,
    /// What is followed besides pods and policies, and who hears of it.
    pub further: Vec<(Feed, Subscriber)>,
    /// How long CiliumNodes may be undefined before Nodes are followed in their place.
    pub plain_nodes_after: Duration,
    /// How prefixes of several pools are had there, if they are.
    pub pod_pools: Option<PodPoolsSettings>,
    /// The API server of the run before, if there was one.
    pub before: Option<KnownServer>,
}

/// The supervisor of the sources: hands on what they tell, once that is whole.
pub struct ClusterSupervisor {
    peers: ClusterPeers,
    settings: ClusterSettings,
    /// Outlives a crash, as the sources do.
    memory: Lent<FollowerState>,
    waiting: Vec<(Feed, Reply<()>)>,
    /// Whether the policy was asked to say when it is in force.
    asked: bool,
    /// What a full mailbox did not take is handed on again.
    retelling: Retry,
}

#[derive(Default)]
struct FollowerState {
    sources: Vec<SupervisedSource>,
    held: BTreeMap<(Feed, Subscriber), PendingNews>,
    witness: Witness,
}

struct SupervisedSource {
    address: Ref<SourceMsg>,
    definition: Option<&'static str>,
    status: SourceStatus,
}

/// What the supervisor of sources shows of itself.
#[derive(Debug, Serialize)]
pub struct SourcesStatus {
    sources: BTreeMap<&'static str, &'static str>,
    policies_handed_on: bool,
    workloads_handed_on: bool,
}

impl ClusterSupervisor {
    /// Makes each life of the supervisor.
    pub fn factory(
        peers: impl Fn() -> ClusterPeers + 'static,
        settings: ClusterSettings,
    ) -> impl FnMut() -> Self + 'static {
        let witness = Witness::new(settings.before.clone());
        let memory = Survives::new(FollowerState { witness, ..FollowerState::default() });
        move || Self {
            peers: peers(),
            settings: settings.clone(),
            memory: memory.lend(),
            waiting: Vec::new(),
            asked: false,
            retelling: Retry::default(),
        }
    }

    fn spawn(&mut self, cx: &mut Cx<'_, Self>) {
        let ClusterSettings { node_name, further: feeds, .. } = &self.settings;
        let is_heard = |feed: &Feed| feeds.iter().any(|(other, _)| other == feed);
        let more = further(node_name).into_iter().filter(|(feed, _)| is_heard(feed));
        let all: Vec<_> = resources(node_name).into_iter().chain(more).collect();
        for (feed, forms) in all {
            self.spawn_source(cx, feed, forms);
        }
        cx.after(self.settings.sync_timeout, ClusterAnswer::Late);
    }

    fn spawn_source(&mut self, cx: &mut Cx<'_, Self>, feed: Feed, mut forms: Vec<Resource>) {
        let memory = &mut *self.memory;
        let feeds = &self.settings.further;
        if feed == Feed::CiliumNode && feeds.contains(&ALL_NODES) {
            forms.iter_mut().for_each(|form| form.fields = None);
        }
        let (name, number) = (forms[0].name, memory.sources.len());
        let definition = forms[0].definition;
        let (cluster, me) = (Rc::clone(&self.peers.cluster), cx.me().clone());
        let (needed, seed) = (feed.needs_definition(), self.settings.seed);
        let source = Source::factory(cluster, me, number, forms, (needed, Telling::Whole), seed);
        let address = cx.host().spawn(format!("cluster {name}"), SOURCE_CAPACITY, source);
        let (state, since) = (SourceState::Listing, cx.now());
        let (version, heard, hearing) = (None, Heard::default(), Hearing::default());
        let status =
            SourceStatus { name, feed, synced: false, state, since, version, heard, hearing };
        memory.sources.push(SupervisedSource { address, definition, status });
        let theirs =
            feeds.iter().filter(|(other, _)| *other == feed).map(|(_, subscriber)| *subscriber);
        for subscriber in theirs.chain((feed == Feed::Nodes).then_some(Subscriber::Nodes)) {
            memory.held.entry((feed, subscriber)).or_insert_with(|| PendingNews::new(subscriber));
        }
        let told_with = feed.told_with();
        if let Some(subscriber) = Subscriber::of(told_with) {
            memory
                .held
                .entry((told_with, subscriber))
                .or_insert_with(|| PendingNews::new(subscriber));
        }
    }

    /// Where nobody defined CiliumNodes, or no other node has one, other nodes are known from their Nodes.
    fn follow_plain_nodes(&mut self, cx: &mut Cx<'_, Self>) {
        let of = |feed| self.memory.sources.iter().map(|it| &it.status).find(|it| it.feed == feed);
        // The source says so again each time it has looked or heard something.
        let is_alone = of(Feed::CiliumNode).is_some_and(|status| {
            let after = match status.state {
                SourceState::Undefined => self.settings.plain_nodes_after,
                // There is one at most, as a rule the own.
                SourceState::Synced(_) if status.heard.objects <= 1 => ALONE_AFTER,
                _ => return false,
            };
            cx.now().since(status.since) >= after
        });
        let wants = self.settings.further.contains(&ALL_NODES);
        if !is_alone || !wants || of(Feed::Nodes).is_some() {
            return;
        }
        for (feed, forms) in further("").into_iter().filter(|(feed, _)| *feed == Feed::Nodes) {
            let number = self.memory.sources.len();
            self.spawn_source(cx, feed, forms);
            self.await_source(cx, number);
        }
    }

    /// Waits for a source, for everyone to see.
    fn await_source(&self, cx: &mut Cx<'_, Self>, number: usize) {
        let Some((name, address)) = self
            .memory
            .sources
            .get(number)
            .filter(|child| !child.status.synced)
            .map(|child| (child.status.name, child.address.clone()))
        else {
            return;
        };
        cx.ask(
            &address,
            SYNC_PATIENCE,
            format!("all {name} of the cluster"),
            SourceMsg::AwaitSync,
            move |answer| ClusterAnswer::Awaited(number, answer),
        );
    }

    fn changed(&mut self, source: usize, mut objects: Vec<(ObjectKey, Option<ApiObject>)>) {
        let memory = &mut *self.memory;
        let Some(SupervisedSource { status, .. }) = memory.sources.get(source) else { return };
        let (of, told_with) = (status.feed, status.feed.told_with());
        let always = Subscriber::of(told_with);
        let theirs = memory.held.iter_mut().filter(|((feed, subscriber), _)| {
            *feed == of || (*feed == told_with && Some(*subscriber) == always)
        });
        let mut theirs = theirs.map(|(_, held)| held).peekable();
        while let Some(held) = theirs.next() {
            let all = match theirs.peek() {
                Some(_) => objects.clone(),
                None => std::mem::take(&mut objects),
            };
            held.add(status.name, all);
        }
    }

    fn state(&mut self, source: usize, state: SourceState, heard: Heard, now: Time) {
        let memory = &mut *self.memory;
        let Some(status) = memory.sources.get_mut(source).map(|child| &mut child.status) else {
            return;
        };
        let synced = match state {
            SourceState::Synced(_) => true,
            SourceState::Undefined => !status.feed.needs_definition(),
            SourceState::Listing | SourceState::Broken { .. } => false,
        };
        let first = synced && !std::mem::replace(&mut status.synced, true);
        if first {
            tracing::info!(resource = status.name, state = state.name(), "source is synced");
        }
        if std::mem::discriminant(&status.state) != std::mem::discriminant(&state) {
            status.since = now;
        }
        if matches!(state, SourceState::Synced(_) | SourceState::Undefined) {
            let of_feed = memory.held.iter_mut().filter(|((feed, _), _)| *feed == status.feed);
            of_feed.for_each(|(_, held)| held.synced(state != SourceState::Undefined));
        }
        match &state {
            SourceState::Synced(version) => {
                status.version = Some(version.clone());
                status.hearing.connect(now);
            }
            SourceState::Broken { .. } => status.hearing.lose(),
            SourceState::Listing | SourceState::Undefined => {}
        }
        if heard.spoke {
            status.hearing.hear(now);
        }
        (status.state, status.heard) = (state, heard);
    }

    /// Asks the server who it is, if there is a reason.
    fn ask(&mut self, cx: &mut Cx<'_, Self>, since: u64) {
        let connections = self.peers.cluster.connections();
        let witness = &mut self.memory.witness;
        if !witness.is_due(cx.now(), connections) {
            if let Some(after) = witness.rests(since) {
                cx.after(after, ClusterAnswer::Ask(since));
            }
        } else if witness.asks(since, connections) {
            let why = "which API server it is";
            let reply = cx.expect("cluster", ASK_PATIENCE, why, ClusterAnswer::Asked);
            self.peers.cluster.list(&Witness::resource(), None, reply);
        }
    }

    fn asked(
        &mut self,
        cx: &mut Cx<'_, Self>,
        answer: Result<Result<Page, ClusterError>, AskError>,
    ) {
        if !self.memory.witness.is_asking() {
            return;
        }
        let answer = ClusterError::of_asked(answer, &*self.peers.cluster);
        let (again, other) = self.memory.witness.hear(answer, (cx.now(), cx.wall()));
        self.ask_later(cx, again);
        if let Some(why) = other {
            tracing::warn!(why, "API server is another one than before; listing all");
            self.relist(None);
        }
    }

    fn ask_later(&self, cx: &mut Cx<'_, Self>, after: Duration) {
        let asked = self.memory.witness.asked();
        cx.after(after, ClusterAnswer::Ask(asked));
    }

    /// One source lists anew, as the server is another one: so do the others.
    fn replaced(&mut self, cx: &Cx<'_, Self>, source: usize, why: String) {
        let is_news = self.memory.witness.replaced((cx.now(), cx.wall()), why);
        if is_news {
            self.relist(Some(source));
        }
    }

    fn relist(&self, but: Option<usize>) {
        let memory = &*self.memory;
        for (number, child) in memory.sources.iter().enumerate() {
            let refused = Some(number) != but && child.address.tell(SourceMsg::Relist).is_err();
            if refused {
                // It hears nothing from the other server, and lists then.
                tracing::warn!(resource = child.status.name, "source lists later");
            }
        }
    }

    /// Who waits until its resource is defined need not wait any longer.
    fn defined(&self, name: &str) {
        let sources = self.memory.sources.iter().filter(|child| child.definition == Some(name));
        for child in sources.filter(|child| child.status.state == SourceState::Undefined) {
            if let Err(refused) = child.address.tell(SourceMsg::Defined) {
                tracing::warn!(resource = child.status.name, %refused, "source lists later");
            }
        }
    }

    /// Hands on what may be handed on, and says so to who waits for it.
    fn advance(&mut self, cx: &mut Cx<'_, Self>) {
        let memory = &mut *self.memory;
        let mut of_services = memory.sources.iter().filter(|it| it.status.feed == Feed::Services);
        let services_known = of_services.all(|child| child.status.synced);
        let unknown = memory.sources.iter().filter(|child| !child.status.synced);
        let unknown: BTreeSet<Feed> = unknown.map(|child| child.status.feed).collect();
        let names = memory.held.values().any(PendingNews::names_services);
        let gates = memory.sources.iter().filter(|child| child.status.feed.gates_policies(names));
        let mut synced = gates.map(|child| child.status.synced);
        let all = match mutated(Mutant::PoliciesUnsynced) {
            true => synced.any(|synced| synced),
            false => synced.all(|synced| synced),
        };
        let (mut later, mut reported) = (false, BTreeSet::new());
        for ((feed, subscriber), held) in &mut memory.held {
            held.services_known = services_known;
            held.released |= all && *feed == Feed::Policies;
            // Who serves and what is served are one list to who serves it.
            held.released |= *subscriber == Subscriber::Services && !unknown.contains(feed);
            later |= held.hand_on(*feed, *subscriber, &self.peers);
            // Who reads all of it is waited for, not who looks at some.
            let always = Subscriber::of(*feed);
            if held.has_told() && always.is_none_or(|it| it == *subscriber) {
                reported.insert(*feed);
            }
        }
        for (_, reply) in self.waiting.extract_if(.., |(feed, _)| reported.contains(feed)) {
            reply.send(());
        }
        let [policies, workloads] =
            [Feed::Policies, Feed::Workloads].map(|it| reported.contains(&it));
        if later {
            self.retelling.pause_once(cx, RETRY, ClusterAnswer::Retell);
        }
        if policies && !workloads && !std::mem::replace(&mut self.asked, true) {
            let policy = self.peers.policy.clone();
            cx.ask(
                &policy,
                IN_FORCE_PATIENCE,
                "the first policies of the cluster to be in force",
                PolicyMsg::Idle,
                ClusterAnswer::InForce,
            );
        }
    }

    fn in_force(&mut self, answer: Result<(), AskError>) {
        if let Err(error) = answer {
            tracing::warn!(%error, "the first policies are not in force everywhere; going on");
        }
        let workloads = (Feed::Workloads, Subscriber::Workloads);
        if let Some(held) = self.memory.held.get_mut(&workloads) {
            held.released = true;
        }
    }

    fn late(&self) {
        for status in self.memory.sources.iter().map(|child| &child.status) {
            if !status.synced {
                let (state, waiting) = (status.state.name(), status.feed.waiting());
                let resource = status.name;
                tracing::error!(resource, state, "source is not synced in time; {waiting}");
            } else if status.state == SourceState::Undefined {
                tracing::warn!(resource = status.name, "nobody defined this resource");
            }
        }
    }
}

impl SourceState {
    fn name(&self) -> &'static str {
        match self {
            Self::Listing => "listing",
            Self::Synced(_) => "synced",
            Self::Undefined => "undefined",
            Self::Broken { .. } => "broken",
        }
    }
}

impl Behaviour for ClusterSupervisor {
    type Msg = ClusterMsg;
    type Answer = ClusterAnswer;
    type Observed = SourcesStatus;

    fn started(&mut self, cx: &mut Cx<'_, Self>) {
        if self.memory.sources.is_empty() {
            self.spawn(cx);
        }
        self.memory.witness.begin();
        self.ask_later(cx, Duration::ZERO);
        let sources = self.memory.sources.len();
        (0..sources).for_each(|number| self.await_source(cx, number));
        self.advance(cx);
    }

    fn handle(&mut self, msg: ClusterMsg, cx: &mut Cx<'_, Self>) {
        match msg {
            ClusterMsg::Changed { source, objects } => self.changed(source, objects),
            ClusterMsg::State { source, state, heard } => {
                // Whoever answers next may be another server; one that is busy is left alone.
                if let SourceState::Broken { error, .. } = &state
                    && !matches!(error, ClusterError::Busy { .. })
                    && self.memory.witness.is_answered()
                {
                    self.memory.witness.doubt();
                    self.ask_later(cx, SOON);
                }
                if heard.spoke {
                    self.memory.witness.note(cx.now());
                }
                self.state(source, state, heard, cx.now());
                self.follow_plain_nodes(cx);
            }
            ClusterMsg::Replaced { source, why } => self.replaced(cx, source, why),
            ClusterMsg::Defined(name) => self.defined(&name),
            ClusterMsg::Server(reply) => reply.send(self.memory.witness.view().clone()),
            ClusterMsg::AwaitSync(feed, reply) => self.waiting.push((feed, reply)),
            ClusterMsg::Show(reply) => {
                let memory = &*self.memory;
                reply.send(memory.sources.iter().map(|child| child.status.clone()).collect());
            }
        }
        self.advance(cx);
    }

    fn answered(&mut self, answer: ClusterAnswer, cx: &mut Cx<'_, Self>) {
        match answer {
            ClusterAnswer::Ask(since) => self.ask(cx, since),
            ClusterAnswer::Asked(answer) => self.asked(cx, answer),
            // Its state says whether it is synced; one that crashed is asked again.
            ClusterAnswer::Awaited(_, Ok(())) => {}
            ClusterAnswer::Awaited(number, Err(_)) => self.await_source(cx, number),
            ClusterAnswer::InForce(answer) => self.in_force(answer),
            ClusterAnswer::Retell => self.retelling.over(),
            ClusterAnswer::Late => self.late(),
        }
        self.advance(cx);
    }

    fn observe(&self) -> SourcesStatus {
        let memory = &*self.memory;
        let begun = |of| memory.held.iter().any(|((feed, _), held)| *feed == of && held.begun);
        SourcesStatus {
            sources: memory
                .sources
                .iter()
                .map(|child| (child.status.name, child.status.state.name()))
                .collect(),
            policies_handed_on: begun(Feed::Policies),
            workloads_handed_on: begun(Feed::Workloads),
        }
    }
}
