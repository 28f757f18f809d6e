//! The actor that owns pods and namespaces: it answers questions once the facts are known, and
//! tells its subscriber of changes. The facts themselves are in the reported.

use std::{collections::BTreeMap, time::Duration};

use serde::Serialize;

use super::{
    PodFacts, PodPoolNames, PoolsRequest, WorkloadsMsg, answers::WorkloadsAnswer, object::PodName,
    reported::ReportedWorkloads,
};
use crate::{
    endpoints::workloads::WorkloadsNews,
    host::{Behaviour, Cx, Lent, Outlet, Reply, Retry, Survives},
    model::{EndpointId, Labels, NamedPorts},
};

/// How long the cluster's pods are waited for before they are asked for again: as long as it
/// takes.
const SYNC_PATIENCE: Duration = Duration::from_secs(24 * 3600);
/// How many questions wait for manifests; the next ones are let go.
const WAITING_MAX: usize = 1_024;
/// How soon a full mailbox is tried again.
const RETRY: Duration = Duration::from_millis(100);

impl WorkloadsState {
    /// Tells what is untold, as far as it is taken; whether a full mailbox wants the rest later.
    fn tell(&mut self, listener: &Outlet<WorkloadsNews>) -> bool {
        if let Some(labels) = self.untold_node.take()
            && let Err(full) = listener.say(WorkloadsNews::Node(labels.clone()))
        {
            self.untold_node = Some(labels);
            return !full.gone;
        }
        while let Some((pod, facts)) = self.untold.pop_first() {
            let name = format!("{}/{}", pod.0, pod.1);
            let reported = listener.say(WorkloadsNews::Pod { name, facts: facts.clone() });
            if let Err(full) = reported {
                self.untold.insert(pod, facts);
                return !full.gone;
            }
        }
        false
    }

    fn look_at_node(&mut self) {
        let news = self.reported.relabelled();
        self.untold_node = news.or(self.untold_node.take());
    }
}

/// The keeper of pods and namespaces.
pub struct Workloads {
    /// Outlives a crash: a manifest is read when it changes, not again.
    state: Lent<WorkloadsState>,
    waiting: Vec<WorkloadsRequest>,
    /// What a full mailbox did not take is told again.
    retelling: Retry,
    /// Who follows the cluster, if pods come from there.
    cluster: Option<Outlet<Reply<()>>>,
}

/// What waits for manifests.
enum WorkloadsRequest {
    Facts(PodName, String, Reply<PodFacts>),
    Ports(BTreeMap<EndpointId, PodName>, Reply<BTreeMap<EndpointId, NamedPorts>>),
    Pools(PoolsRequest, Reply<Result<PodPoolNames, String>>),
}

impl WorkloadsRequest {
    fn is_closed(&self) -> bool {
        match self {
            Self::Facts(_, _, reply) => reply.is_closed(),
            Self::Ports(_, reply) => reply.is_closed(),
            Self::Pools(_, reply) => reply.is_closed(),
        }
    }
}

struct WorkloadsState {
    reported: ReportedWorkloads,
    listener: Option<Outlet<WorkloadsNews>>,
    /// Changes that the listener has not taken yet.
    untold: BTreeMap<PodName, PodFacts>,
    /// The same of this node.
    untold_node: Option<Option<Labels>>,
}

/// What the keeper shows of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct WorkloadsView {
    /// Sources that say something.
    pub sources: usize,
    /// Pods that they describe.
    pub pods: usize,
    /// Namespaces that they describe.
    pub namespaces: usize,
    /// Questions that wait for manifests.
    pub waiting: usize,
    /// Changes that are still to be told.
    pub untold: usize,
}

impl Workloads {
    /// Makes each life of the keeper of a cluster's workloads. `follows` says who follows the
    /// cluster, if pods come from there.
    pub fn factory(
        cluster: impl Into<String>,
        node: impl Into<String>,
        follows: impl Fn() -> Option<Outlet<Reply<()>>> + 'static,
    ) -> impl FnMut() -> Self + 'static {
        let reported = ReportedWorkloads::new(cluster.into(), node.into());
        let state =
            WorkloadsState { reported, listener: None, untold: BTreeMap::new(), untold_node: None };
        let state = Survives::new(state);
        move || Self {
            state: state.lend(),
            waiting: Vec::new(),
            retelling: Retry::default(),
            cluster: follows(),
        }
    }

    /// Waits for the cluster's pods, for everyone to see.
    fn await_cluster(&self, cx: &mut Cx<'_, Self>) {
        let complete = self.state.reported.complete;
        let Some(cluster) = self.cluster.as_ref().filter(|_| !complete) else { return };
        cx.ask(
            cluster,
            SYNC_PATIENCE,
            "the cluster's policies to be in force, then its pods",
            |reply| reply,
            WorkloadsAnswer::Synced,
        );
    }

    /// Whether it can be answered. A restart does not wait for a cluster; a new pod does, until the
    /// cluster says who it is.
    fn is_answerable(&self, question: &WorkloadsRequest) -> bool {
        let reported = &self.state.reported;
        match (question, &self.cluster) {
            (_, None) => reported.complete,
            (WorkloadsRequest::Ports(..), Some(_)) => true,
            (WorkloadsRequest::Facts(pod, uid, _), Some(_)) => {
                reported.complete && reported.describes(pod, uid)
            }
            (WorkloadsRequest::Pools(PoolsRequest { chosen: Some(_), .. }, _), Some(_)) => {
                reported.pools.known
            }
            (WorkloadsRequest::Pools(PoolsRequest { pod, .. }, _), Some(_)) => {
                reported.complete && reported.pools.known && reported.describes(pod, "")
            }
        }
    }

    fn ask(&mut self, question: WorkloadsRequest) {
        if self.is_answerable(&question) {
            return self.answer(question);
        }
        if self.waiting.len() >= WAITING_MAX {
            self.waiting.retain(|question| !question.is_closed());
        }
        if self.waiting.len() < WAITING_MAX {
            self.waiting.push(question);
        }
    }

    fn ask_again(&mut self) {
        for question in std::mem::take(&mut self.waiting) {
            if !question.is_closed() {
                self.ask(question);
            }
        }
    }

    fn answer(&mut self, question: WorkloadsRequest) {
        let reported = &mut self.state.reported;
        match question {
            WorkloadsRequest::Facts(pod, _, reply) => reply.send(reported.facts_of(pod)),
            WorkloadsRequest::Ports(pods, reply) => {
                let ports = |(id, pod)| Some((id, reported.ports_of(&pod)?));
                reply.send(pods.into_iter().filter_map(ports).collect());
            }
            WorkloadsRequest::Pools(request, reply) => reply.send(reported.pools_of(request)),
        }
    }

    /// Tells what changed; what is not taken is told a little later.
    fn tell(&mut self, cx: &mut Cx<'_, Self>) {
        let state = &mut *self.state;
        let Some(listener) = state.listener.clone() else { return };
        if state.tell(&listener) {
            self.retelling.pause_once(cx, RETRY, WorkloadsAnswer::Retell);
        }
    }
}

impl Behaviour for Workloads {
    type Msg = WorkloadsMsg;
    type Answer = WorkloadsAnswer;
    type Observed = WorkloadsView;

    fn started(&mut self, cx: &mut Cx<'_, Self>) {
        self.tell(cx);
        self.await_cluster(cx);
    }

    fn handle(&mut self, msg: WorkloadsMsg, cx: &mut Cx<'_, Self>) {
        match msg {
            WorkloadsMsg::Manifests(manifests) => {
                let state = &mut *self.state;
                let changed = state.reported.apply(manifests);
                state.untold.extend(changed);
                // A cluster tells of nodes apart.
                if self.cluster.is_none() {
                    state.look_at_node();
                }
                self.ask_again();
            }
            WorkloadsMsg::Pools(objects) => {
                self.state.reported.pools.take(objects);
                self.ask_again();
            }
            WorkloadsMsg::PoolsOf { request, reply } => {
                self.ask(WorkloadsRequest::Pools(request, reply));
            }
            WorkloadsMsg::Nodes(objects) => {
                let state = &mut *self.state;
                state.reported.node(objects);
                state.look_at_node();
            }
            WorkloadsMsg::Describe { namespace, pod, uid, reply } => {
                self.ask(WorkloadsRequest::Facts((namespace, pod), uid, reply));
            }
            WorkloadsMsg::PortsOf { pods, reply } => self.ask(WorkloadsRequest::Ports(pods, reply)),
            WorkloadsMsg::Subscribe(listener) => self.state.listener = Some(listener),
        }
        self.tell(cx);
    }

    fn answered(&mut self, answer: WorkloadsAnswer, cx: &mut Cx<'_, Self>) {
        match answer {
            WorkloadsAnswer::Retell => self.retelling.over(),
            WorkloadsAnswer::Synced(Ok(())) => {}
            WorkloadsAnswer::Synced(Err(_)) => self.await_cluster(cx),
        }
        self.tell(cx);
    }

    fn observe(&self) -> WorkloadsView {
        let state = &*self.state;
        let (sources, pods, namespaces) = state.reported.counts();
        let (waiting, untold) = (self.waiting.len(), state.untold.len());
        WorkloadsView { sources, pods, namespaces, waiting, untold }
    }
}
