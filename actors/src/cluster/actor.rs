use std::{cell::RefCell, collections::BTreeMap, rc::Rc, time::Duration};

use serde::Serialize;

use super::{
    ClusterMsg, Feed, SourceMsg, SourceState, SourceStatus,
    held::Held,
    resources::{published, resources},
    source::Source,
};
use crate::{
    host::{AskError, Behaviour, Cx, Ref, Reply},
    mutants::{Mutant, mutated},
    policy::PolicyMsg,
    ports::{Cluster, Time},
    publish::PublisherMsg,
    workloads::WorkloadsMsg,
};

/// Capacity of a source's mailbox, messages.
const SOURCE_CAPACITY: usize = 64;
/// How long a source is waited for before it is asked again: as long as it takes.
const SYNC_PATIENCE: Duration = Duration::from_secs(24 * 3600);
/// How long the first policies may take to be in force before pods are handed on all the same.
const IN_FORCE_PATIENCE: Duration = Duration::from_secs(60);
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
    /// What of this node's own objects is followed for who publishes them.
    pub published: Vec<Feed>,
}

/// Whom the supervisor of sources talks to.
#[derive(Clone)]
pub struct ClusterPeers {
    /// The API server.
    pub cluster: Rc<dyn Cluster>,
    /// The owner of the policy.
    pub policy: Ref<PolicyMsg>,
    /// The keeper of pods and namespaces.
    pub workloads: Ref<WorkloadsMsg>,
    /// Who keeps what this node says of itself, if that is done.
    pub publisher: Option<Ref<PublisherMsg>>,
}

/// The supervisor of the sources: hands on what they tell, once that is whole.
pub struct ClusterSupervisor {
    peers: ClusterPeers,
    settings: ClusterSettings,
    /// Outlives a crash, as the sources do.
    kept: Rc<RefCell<Kept>>,
    waiting: Vec<(Feed, Reply<()>)>,
    /// Whether the policy was asked to say when it is in force.
    asked: bool,
    retelling: bool,
}

#[derive(Default)]
struct Kept {
    sources: Vec<Child>,
    held: BTreeMap<Feed, Held>,
}

struct Child {
    address: Ref<SourceMsg>,
    status: SourceStatus,
}

/// What the supervisor of sources shows of itself.
#[derive(Debug, Serialize)]
pub struct Observed {
    sources: BTreeMap<&'static str, &'static str>,
    policies_handed_on: bool,
    workloads_handed_on: bool,
}

impl ClusterSupervisor {
    /// Makes each life of the supervisor.
    pub fn factory(
        peers: ClusterPeers,
        settings: ClusterSettings,
    ) -> impl FnMut() -> Self + 'static {
        let kept = Rc::<RefCell<Kept>>::default();
        move || Self {
            peers: peers.clone(),
            settings: settings.clone(),
            kept: Rc::clone(&kept),
            waiting: Vec::new(),
            asked: false,
            retelling: false,
        }
    }

    fn spawn(&self, cx: &mut Cx<'_, Self>) {
        let mut kept = self.kept.borrow_mut();
        let ClusterSettings { node_name, published: feeds, .. } = &self.settings;
        let own = published(node_name).into_iter().filter(|(feed, _)| feeds.contains(feed));
        let all = resources(node_name).into_iter().chain(own);
        for (number, (feed, forms)) in all.enumerate() {
            let name = forms[0].name;
            let (cluster, me) = (Rc::clone(&self.peers.cluster), cx.me().clone());
            let source = Source::factory(cluster, me, number, forms, self.settings.seed);
            let address = cx.host().spawn(format!("cluster {name}"), SOURCE_CAPACITY, source);
            let (state, since) = (SourceState::Listing, cx.now());
            let status = SourceStatus { name, feed, synced: false, state, since };
            kept.sources.push(Child { address, status });
            kept.held.entry(feed).or_insert_with(|| Held::new(feed));
        }
        cx.after(self.settings.sync_timeout, ClusterMsg::Late);
    }

    /// Waits for a source, for everyone to see.
    fn await_source(&self, cx: &mut Cx<'_, Self>, number: usize) {
        let Some((name, address)) = self
            .kept
            .borrow()
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
            move |answer| ClusterMsg::Awaited(number, answer),
        );
    }

    fn state(&mut self, source: usize, state: SourceState, now: Time) {
        let kept = &mut *self.kept.borrow_mut();
        let Some(status) = kept.sources.get_mut(source).map(|child| &mut child.status) else {
            return;
        };
        let first = matches!(state, SourceState::Synced(_) | SourceState::Undefined)
            && !std::mem::replace(&mut status.synced, true);
        if first {
            tracing::info!(resource = status.name, state = state.name(), "source is synced");
        }
        if std::mem::discriminant(&status.state) != std::mem::discriminant(&state) {
            status.since = now;
        }
        let held = match state {
            SourceState::Synced(_) | SourceState::Undefined => kept.held.get_mut(&status.feed),
            SourceState::Listing | SourceState::Broken { .. } => None,
        };
        if let Some(held) = held {
            held.synced(state != SourceState::Undefined);
        }
        status.state = state;
    }

    /// Hands on what may be handed on, and says so to who waits for it.
    fn advance(&mut self, cx: &mut Cx<'_, Self>) {
        let mut kept = self.kept.borrow_mut();
        let gates = kept.sources.iter().filter(|child| child.status.feed.gates_policies());
        let mut synced = gates.map(|child| child.status.synced);
        let all = match mutated(Mutant::PoliciesUnsynced) {
            true => synced.any(|synced| synced),
            false => synced.all(|synced| synced),
        };
        let (mut later, mut policies, mut workloads) = (false, false, false);
        for (feed, held) in &mut kept.held {
            held.released |= all && *feed == Feed::Policies;
            later |= held.hand_on(*feed, &self.peers);
            match feed {
                Feed::Policies => policies = held.begun,
                Feed::Workloads => workloads = held.begun,
                Feed::Node | Feed::CiliumNode | Feed::CiliumEndpoints => {}
            }
        }
        drop(kept);
        let begun = |feed| if feed == Feed::Policies { policies } else { workloads };
        for (_, reply) in self.waiting.extract_if(.., |(feed, _)| begun(*feed)) {
            reply.send(());
        }
        if later && !std::mem::replace(&mut self.retelling, true) {
            cx.after(RETRY, ClusterMsg::Retell);
        }
        if policies && !workloads && !std::mem::replace(&mut self.asked, true) {
            let policy = self.peers.policy.clone();
            cx.ask(
                &policy,
                IN_FORCE_PATIENCE,
                "the first policies of the cluster to be in force",
                PolicyMsg::Idle,
                ClusterMsg::InForce,
            );
        }
    }

    fn in_force(&mut self, answer: Result<(), AskError>) {
        if let Err(error) = answer {
            tracing::warn!(%error, "the first policies are not in force everywhere; going on");
        }
        if let Some(held) = self.kept.borrow_mut().held.get_mut(&Feed::Workloads) {
            held.released = true;
        }
    }

    fn late(&self) {
        for status in self.kept.borrow().sources.iter().map(|child| &child.status) {
            if !status.synced && !status.feed.gates_policies() {
                tracing::error!(
                    resource = status.name,
                    state = status.state.name(),
                    "source is not synced in time; what this node says of itself waits for it"
                );
            } else if !status.synced {
                tracing::error!(
                    resource = status.name,
                    state = status.state.name(),
                    "source is not synced in time; endpoints keep what they have, and new pods wait"
                );
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
    type Observed = Observed;

    fn started(&mut self, cx: &mut Cx<'_, Self>) {
        if self.kept.borrow().sources.is_empty() {
            self.spawn(cx);
        }
        let sources = self.kept.borrow().sources.len();
        (0..sources).for_each(|number| self.await_source(cx, number));
        self.advance(cx);
    }

    fn handle(&mut self, msg: ClusterMsg, cx: &mut Cx<'_, Self>) {
        match msg {
            ClusterMsg::Changed { source, objects } => {
                let kept = &mut *self.kept.borrow_mut();
                if let Some(Child { status, .. }) = kept.sources.get(source)
                    && let Some(held) = kept.held.get_mut(&status.feed)
                {
                    held.add(status.name, objects);
                }
            }
            ClusterMsg::State { source, state } => self.state(source, state, cx.now()),
            ClusterMsg::AwaitSync(feed, reply) => self.waiting.push((feed, reply)),
            ClusterMsg::Show(reply) => {
                let kept = self.kept.borrow();
                reply.send(kept.sources.iter().map(|child| child.status.clone()).collect());
            }
            // Its state says whether it is synced; one that crashed is asked again.
            ClusterMsg::Awaited(_, Ok(())) => {}
            ClusterMsg::Awaited(number, Err(_)) => self.await_source(cx, number),
            ClusterMsg::InForce(answer) => self.in_force(answer),
            ClusterMsg::Retell => self.retelling = false,
            ClusterMsg::Late => self.late(),
        }
        self.advance(cx);
    }

    fn observe(&self) -> Observed {
        let kept = self.kept.borrow();
        let begun = |feed| kept.held.get(&feed).is_some_and(|held| held.begun);
        Observed {
            sources: kept
                .sources
                .iter()
                .map(|child| (child.status.name, child.status.state.name()))
                .collect(),
            policies_handed_on: begun(Feed::Policies),
            workloads_handed_on: begun(Feed::Workloads),
        }
    }
}
