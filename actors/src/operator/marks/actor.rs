//! Who marks Nodes: a few writes at a time, each to the version of the Node that was seen.

use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
    time::Duration,
};

use super::{
    MarkSettings, MarksView,
    answers::MarksAnswer,
    known::{AskedMark, KnownAgents, Looked, NextMark, NodeMark},
};
use crate::{
    cluster::backoff::Backoff,
    host::{AskError, Behaviour, Cx, Pauses, Ref, Time},
    model::{ApiObject, Timestamp},
    mutants::{Mutant, mutated},
    operator::{
        ending::OnlyLife,
        leadership::LeadershipMsg,
        news::{FollowedKind, ObjectNews, WorkerMsg},
        resources::nodes,
    },
    ports::{Cluster, ClusterError, Object, ObjectKey, ObjectWrite},
};

/// Writes under way at a time.
const WRITES_MAX: usize = 10;
/// How long the server may take for one.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long the Lease may take.
const CONFIRM_PATIENCE: Duration = Duration::from_secs(30);
/// For so long the Lease counts as confirmed: one who stood still meanwhile asks again.
const CONFIRMED_FOR: Duration = Duration::from_secs(5);
/// How soon it is looked again for what the server has and did not tell yet.
const UNSEEN: Duration = Duration::from_secs(1);
/// How soon a Node is written again that the server did not take.
const PAUSES: Pauses =
    Pauses::Doubling { first: Duration::from_millis(250), most: Duration::from_secs(30) };

/// Whom who marks Nodes talks to.
#[derive(Clone)]
pub(in crate::operator) struct MarksPeers {
    pub(in crate::operator) cluster: Rc<dyn Cluster>,
    pub(in crate::operator) leadership: Ref<LeadershipMsg>,
    pub(in crate::operator) life: OnlyLife,
    pub(in crate::operator) seed: u64,
}

/// Who marks Nodes.
pub(in crate::operator) struct NodeMarker {
    peers: MarksPeers,
    settings: MarkSettings,
    known: KnownAgents,
    /// Nodes that are to be looked at.
    due: BTreeSet<String>,
    /// How many writes are under way.
    writing: usize,
    /// When the Lease was confirmed.
    confirmed: Option<Time>,
    confirming: bool,
    /// How often in a row the server did not take a Node as it was to be.
    failures: BTreeMap<String, u32>,
    /// How long the server is left alone.
    server: Backoff,
    view: MarksView,
}

impl NodeMarker {
    pub(in crate::operator) fn new(peers: MarksPeers, settings: MarkSettings) -> Self {
        Self {
            server: Backoff::new(peers.seed, "marks"),
            peers,
            settings,
            known: KnownAgents::default(),
            due: BTreeSet::new(),
            writing: 0,
            confirmed: None,
            confirming: false,
            failures: BTreeMap::new(),
            view: MarksView::default(),
        }
    }

    fn changed(&mut self, of: FollowedKind, objects: Vec<(ObjectKey, Option<ApiObject>)>) {
        for (key, value) in objects {
            if let Some(ApiObject::Malformed(error)) = &value {
                tracing::warn!(%error, "not taken in; what it was before stays");
                continue;
            }
            match of {
                FollowedKind::AgentPods => {
                    let nodes = self.known.set_pod(key, value.as_ref(), &self.settings);
                    self.due.extend(nodes);
                }
                FollowedKind::Nodes => {
                    if value.is_none() {
                        self.failures.remove(&key.name);
                    }
                    self.known.set_node(&key.name, value.as_ref());
                    self.due.insert(key.name);
                }
                _ => {}
            }
        }
    }

    /// Does what comes next.
    fn proceed(&mut self, cx: &mut Cx<'_, Self>) {
        if !self.known.is_whole() || self.server.is_pausing() || self.confirming {
            return;
        }
        while self.writing < WRITES_MAX
            && let Some(name) = self.due.first().cloned()
        {
            let next = self.known.next(&name, &self.settings, cx.now());
            if matches!(next, NextMark::Make(_)) && !self.is_confirmed(cx) {
                return self.confirm(cx);
            }
            self.due.remove(&name);
            match next {
                NextMark::Nothing => {}
                NextMark::Make(mark) => self.look(cx, name, mark),
                NextMark::Later(mark, span) => {
                    let number = self.known.pause(&name, mark);
                    cx.after(span, MarksAnswer::Again(name, number));
                }
            }
        }
    }

    fn is_confirmed(&self, cx: &Cx<'_, Self>) -> bool {
        self.confirmed.is_some_and(|at| cx.now().since(at) < CONFIRMED_FOR)
    }

    fn confirm(&mut self, cx: &mut Cx<'_, Self>) {
        self.confirming = true;
        let leadership = self.peers.leadership.clone();
        let confirm = |reply| LeadershipMsg::Confirm { prefixes: None, reply };
        let why = "the Lease, before Nodes are marked";
        cx.ask(&leadership, CONFIRM_PATIENCE, why, confirm, MarksAnswer::Confirmed);
    }

    fn confirmed(&mut self, cx: &mut Cx<'_, Self>, answer: Result<bool, AskError>) {
        self.confirming = false;
        match answer {
            Ok(true) => {
                self.confirmed = Some(cx.now());
                self.proceed(cx);
            }
            // Who does not lead any more ends.
            Ok(false) => {}
            Err(error) => self.rest(cx, Duration::ZERO, &error.to_string()),
        }
    }

    /// Asks for the pod by which the Node is marked: what is known may be of a Node before of that name.
    fn look(&mut self, cx: &mut Cx<'_, Self>, name: String, mark: NodeMark) {
        if mutated(Mutant::MarksUnasked) {
            return self.write(cx, name, mark);
        }
        let Some((pod, version)) = self.known.look(&name, mark) else { return };
        let why = format!("pod {pod}, by which Node {name} is marked");
        let asked = AskedMark { name, mark, version };
        let then = move |answer| MarksAnswer::Looked(asked, answer);
        let reply = cx.expect("cluster", PATIENCE, why, then);
        self.writing += 1;
        self.peers.cluster.get(&self.settings.agent_pods(), &pod, reply);
    }

    fn looked(
        &mut self,
        cx: &mut Cx<'_, Self>,
        asked: AskedMark,
        answer: Result<Result<Object, ClusterError>, AskError>,
    ) {
        self.writing = self.writing.saturating_sub(1);
        let looked = match ClusterError::of_asked(answer, &*self.peers.cluster) {
            Ok(pod) => self.known.looked(&asked, &pod, &self.settings),
            Err(ClusterError::NotFound(_)) => match self.known.failed(&asked) {
                true => Looked::Unseen,
                false => Looked::Changed,
            },
            Err(error) => {
                self.failed(cx, asked, &error);
                return self.proceed(cx);
            }
        };
        let AskedMark { name, mark, .. } = asked;
        match looked {
            Looked::Holds => self.write(cx, name, mark),
            Looked::Unseen => {
                let number = self.known.pause(&name, mark);
                cx.after(UNSEEN, MarksAnswer::Again(name, number));
            }
            Looked::Changed => drop(self.due.insert(name)),
        }
        self.proceed(cx);
    }

    fn write(&mut self, cx: &mut Cx<'_, Self>, name: String, mark: NodeMark) {
        let now = Timestamp::from_nanos(cx.wall()).0;
        let begun = self.known.begin(&name, mark, &self.settings, &now);
        let Some((verb, version)) = begun else { return };
        let key = ObjectKey { namespace: String::new(), name: name.clone() };
        let why = format!("Node {name} to be marked");
        let asked = AskedMark { name, mark, version };
        let then = move |answer| MarksAnswer::Written(asked, answer);
        let reply = cx.expect("cluster", PATIENCE, why, then);
        self.writing += 1;
        self.peers.cluster.write(ObjectWrite { resource: nodes(), key, verb }, reply);
    }

    fn written(
        &mut self,
        cx: &mut Cx<'_, Self>,
        asked: AskedMark,
        answer: Result<Result<(), ClusterError>, AskError>,
    ) {
        self.writing = self.writing.saturating_sub(1);
        match ClusterError::of_asked(answer, &*self.peers.cluster) {
            Ok(()) => {
                self.made(cx, &asked);
                // What it is now may have been seen before this answer.
                self.due.insert(asked.name);
            }
            // Somebody else changed it: what it is to be is told by what it is now.
            Err(ClusterError::Conflict(_) | ClusterError::NotFound(_)) => {
                if self.known.refused(&asked) {
                    self.due.insert(asked.name);
                }
            }
            Err(error) => self.failed(cx, asked, &error),
        }
        self.proceed(cx);
    }

    fn made(&mut self, cx: &Cx<'_, Self>, asked: &AskedMark) {
        let AskedMark { name, mark, .. } = asked;
        self.server.succeeded();
        self.failures.remove(name);
        let what = match mark {
            NodeMark::Untaint => "the agent is ready: the taint is removed",
            NodeMark::SayUp => "the agent is ready: the condition says that the network is up",
            NodeMark::Taint => "no agent is ready: the taint is set",
        };
        *match mark {
            NodeMark::Untaint => &mut self.view.untainted,
            NodeMark::SayUp => &mut self.view.said_up,
            NodeMark::Taint => &mut self.view.tainted,
        } += 1;
        let undone = self.known.made(asked, cx.now());
        match undone {
            0 => tracing::info!(node = name, what, "Node was marked"),
            _ if undone.is_power_of_two() => tracing::warn!(
                node = name,
                what,
                undone,
                "somebody undoes what this operator writes: look at the Node's managedFields"
            ),
            _ => {}
        }
    }

    /// Who is down, busy or refuses does so for all; anything else is about that Node.
    fn failed(&mut self, cx: &mut Cx<'_, Self>, asked: AskedMark, error: &ClusterError) {
        let is_same = self.known.failed(&asked);
        let AskedMark { name, mark, .. } = asked;
        self.view.failed += 1;
        let at_least = match error {
            ClusterError::Unreachable(_) | ClusterError::Unknown(_) | ClusterError::Refused(_) => {
                Duration::ZERO
            }
            ClusterError::Busy { after, .. } => *after,
            // What is wrong with a Node that is not there any more matters to nobody.
            _ if !is_same => return,
            _ => {
                let failures = self.failures.entry(name.clone()).or_default();
                *failures += 1;
                let retry_in = PAUSES.after(*failures);
                if failures.is_power_of_two() {
                    tracing::warn!(node = name, %error, ?retry_in, "Node was not marked");
                }
                self.view.error = Some(error.to_string());
                let number = self.known.pause(&name, mark);
                cx.after(retry_in, MarksAnswer::Again(name, number));
                return;
            }
        };
        self.due.insert(name);
        self.rest(cx, at_least, &error.to_string());
    }

    /// Leaves the server alone.
    fn rest(&mut self, cx: &mut Cx<'_, Self>, at_least: Duration, error: &str) {
        self.view.error = Some(error.to_owned());
        if self.server.is_pausing() {
            return;
        }
        let pause = self.server.failed(at_least);
        if self.server.failures().is_power_of_two() {
            tracing::warn!(error, "Nodes were not marked; trying again");
        }
        let why = format!("Nodes to be marked: {error}");
        self.server.pause(cx, pause, why, || MarksAnswer::Rested);
    }
}

impl Behaviour for NodeMarker {
    type Msg = WorkerMsg<MarksView>;
    type Answer = MarksAnswer;
    type Observed = MarksView;

    fn started(&mut self, _: &mut Cx<'_, Self>) {
        self.peers.life.begin();
    }

    fn handle(&mut self, msg: WorkerMsg<MarksView>, cx: &mut Cx<'_, Self>) {
        match msg {
            WorkerMsg::News(ObjectNews::Changed(of, objects)) => self.changed(of, objects),
            WorkerMsg::News(ObjectNews::Standing(of, standing)) => {
                self.known.set_standing(of, standing);
            }
            WorkerMsg::Show(reply) => return reply.send(self.observe()),
        }
        self.proceed(cx);
    }

    fn answered(&mut self, answer: MarksAnswer, cx: &mut Cx<'_, Self>) {
        match answer {
            MarksAnswer::Confirmed(answer) => self.confirmed(cx, answer),
            MarksAnswer::Looked(asked, answer) => self.looked(cx, asked, answer),
            MarksAnswer::Written(asked, answer) => self.written(cx, asked, answer),
            MarksAnswer::Again(name, number) => {
                self.known.paused(&name, number);
                self.due.insert(name);
                self.proceed(cx);
            }
            MarksAnswer::Rested => {
                self.server.over();
                self.proceed(cx);
            }
        }
    }

    fn observe(&self) -> MarksView {
        let (ready, unready) = self.known.counts();
        MarksView { ready, unready, ..self.view.clone() }
    }
}
