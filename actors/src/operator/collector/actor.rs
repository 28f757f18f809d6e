//! Who removes what is left over, one object after the other.

use std::{collections::VecDeque, mem, rc::Rc, time::Duration};

use serde_json::json;

use super::{
    CollectorView,
    answers::CollectorAnswer,
    leftovers::{HEARTBEAT, Kind, Known, Leftover},
};
use crate::{
    host::{AskError, Behaviour, Cx, Ref},
    model::{ApiObject, Timestamp},
    mutants::{Mutant, mutated},
    operator::{
        ending::OnlyLife,
        leadership::LeadershipMsg,
        news::{ObjectNews, WorkerMsg},
        resources::{nodes, pods},
    },
    ports::{Cluster, ClusterError, Object, ObjectWrite, Verb},
};

/// How long the server may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long the Lease may take.
const CONFIRM_PATIENCE: Duration = Duration::from_secs(30);
/// The Lease is confirmed again after so many.
const CONFIRMED_FOR: usize = 100;
/// How many go in one round: more wait for the next.
const ROUND_MAX: usize = 2500;

/// How often is looked for what is left over, and how old it must be. An interval of zero: never.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CollectorSettings {
    /// Of CiliumEndpoints: how often, and for how long they must have been without their pod.
    pub endpoints: Duration,
    /// Of CiliumIdentities: how often.
    pub identities: Duration,
    /// For how long nobody may have used an identity that goes.
    pub unused: Duration,
    /// Of CiliumNodes: how often, and for how long they must have been without their Node.
    pub nodes: Duration,
}

impl CollectorSettings {
    fn every(&self, kind: Kind) -> Duration {
        match kind {
            Kind::Endpoints => self.endpoints,
            Kind::Identities => self.identities,
            Kind::Nodes => self.nodes,
        }
    }

    fn age(&self, kind: Kind) -> Duration {
        match kind {
            Kind::Identities => self.unused,
            _ => self.every(kind),
        }
    }
}

/// Whom the collector talks to.
#[derive(Clone)]
pub(in crate::operator) struct CollectorPeers {
    pub(in crate::operator) cluster: Rc<dyn Cluster>,
    pub(in crate::operator) leadership: Ref<LeadershipMsg>,
    pub(in crate::operator) life: OnlyLife,
}

/// Who removes what is left over.
pub(in crate::operator) struct Collector {
    peers: CollectorPeers,
    settings: CollectorSettings,
    known: Known,
    queue: VecDeque<Leftover>,
    /// What is being done, for which the server or the Lease is asked.
    phase: CollectingPhase,
    /// For how many more the Lease was confirmed.
    confirmed: usize,
    view: CollectorView,
}

/// What the collector waits for.
#[derive(Debug, Default)]
enum CollectingPhase {
    #[default]
    Idle,
    /// The Lease.
    Confirming,
    /// The owner of this one, or that it is written.
    Removing(Leftover),
}

impl Collector {
    pub(in crate::operator) fn new(peers: CollectorPeers, settings: CollectorSettings) -> Self {
        Self {
            peers,
            settings,
            known: Known::default(),
            queue: VecDeque::new(),
            phase: CollectingPhase::default(),
            confirmed: 0,
            view: CollectorView::default(),
        }
    }

    fn due(&mut self, cx: &mut Cx<'_, Self>, kind: Kind) {
        self.schedule(cx, kind);
        let left = self.known.leftovers(kind, self.settings.age(kind), cx.now());
        // What waits of the round before is looked at anew.
        self.queue.retain(|it| it.kind != kind);
        self.queue.extend(left.into_iter().take(ROUND_MAX));
        self.advance(cx);
    }

    fn schedule(&self, cx: &mut Cx<'_, Self>, kind: Kind) {
        let every = self.settings.every(kind);
        if !every.is_zero() {
            cx.after(every, CollectorAnswer::Due(kind));
        }
    }

    /// Does what comes next: the Lease, the owner, the write.
    fn advance(&mut self, cx: &mut Cx<'_, Self>) {
        if !matches!(self.phase, CollectingPhase::Idle) {
            return;
        }
        if self.queue.is_empty() {
            self.confirmed = 0;
        } else if self.confirmed == 0 {
            self.phase = CollectingPhase::Confirming;
            let leadership = self.peers.leadership.clone();
            let confirm = |reply| LeadershipMsg::Confirm { prefixes: None, reply };
            let why = "the Lease, before something is removed";
            cx.ask(&leadership, CONFIRM_PATIENCE, why, confirm, CollectorAnswer::Confirmed);
        } else if let Some(next) = self.queue.pop_front() {
            self.confirmed -= 1;
            self.look(cx, next);
        }
    }

    /// Asks for the pod or the Node that it belongs to.
    fn look(&mut self, cx: &mut Cx<'_, Self>, next: Leftover) {
        let owner = match next.kind {
            _ if mutated(Mutant::OwnersUnasked) => None,
            Kind::Endpoints => Some(pods()),
            Kind::Nodes => Some(nodes()),
            // Its version says that nobody took it up.
            Kind::Identities => None,
        };
        match owner {
            Some(resource) => {
                let why = format!("whether {} {} is there", resource.kind, next.key);
                let reply = cx.expect("cluster", PATIENCE, why, CollectorAnswer::Looked);
                self.peers.cluster.get(&resource, &next.key, reply);
            }
            None => self.write(cx, &next),
        }
        self.phase = CollectingPhase::Removing(next);
    }

    fn confirmed(&mut self, cx: &mut Cx<'_, Self>, answer: Result<bool, AskError>) {
        self.phase = CollectingPhase::Idle;
        match answer {
            Ok(true) => {
                self.confirmed = CONFIRMED_FOR;
                self.advance(cx);
            }
            // The next round looks at all anew.
            _ => self.queue.clear(),
        }
    }

    fn looked(
        &mut self,
        cx: &mut Cx<'_, Self>,
        answer: Result<Result<Object, ClusterError>, AskError>,
    ) {
        match ClusterError::of_asked(answer, &*self.peers.cluster) {
            Ok(owner) if !has_ended(&owner) => self.done(cx, false),
            Ok(_) | Err(ClusterError::NotFound(_)) => {
                if let CollectingPhase::Removing(leftover) = &self.phase {
                    self.write(cx, leftover);
                }
            }
            Err(error) => self.failed(error.to_string()),
        }
    }

    fn write(&self, cx: &mut Cx<'_, Self>, leftover: &Leftover) {
        let Leftover { kind, key, uid, version, marks } = leftover.clone();
        let verb = match marks {
            true => {
                let now = Timestamp::from_nanos(cx.wall()).0;
                Verb::Merge(json!({ "metadata": {
                    "resourceVersion": version, "annotations": { HEARTBEAT: now },
                } }))
            }
            false => {
                let version = Some(version).filter(|_| !mutated(Mutant::LeftoversUnversioned));
                Verb::Delete { uid, version }
            }
        };
        let resource = kind.followed().resource();
        let why = format!("{} {key}, which is left over", resource.kind);
        let reply = cx.expect("cluster", PATIENCE, why, CollectorAnswer::Written);
        self.peers.cluster.write(ObjectWrite { resource, key, verb }, reply);
    }

    fn written(
        &mut self,
        cx: &mut Cx<'_, Self>,
        answer: Result<Result<(), ClusterError>, AskError>,
    ) {
        match ClusterError::of_asked(answer, &*self.peers.cluster) {
            Ok(()) => self.done(cx, true),
            // It is another one by now, or gone.
            Err(ClusterError::Conflict(_) | ClusterError::NotFound(_)) => self.done(cx, false),
            Err(error) => self.failed(error.to_string()),
        }
    }

    fn done(&mut self, cx: &mut Cx<'_, Self>, is_written: bool) {
        if let CollectingPhase::Removing(Leftover { kind, key, marks, .. }) =
            mem::take(&mut self.phase)
            && is_written
        {
            let resource = kind.followed().resource();
            let what = if marks { "marked" } else { "removed" };
            tracing::info!(kind = resource.kind, %key, what, "object was left over");
            match marks {
                true => self.view.marked += 1,
                false => self.view.removed[kind as usize] += 1,
            }
        }
        self.advance(cx);
    }

    /// The server does not do what it should: the next round tries again.
    fn failed(&mut self, error: String) {
        let left = self.queue.len();
        tracing::warn!(error, left, "what is left over stays until the next round");
        self.view.failed += 1;
        self.view.error = Some(error);
        self.queue.clear();
        self.phase = CollectingPhase::Idle;
        self.confirmed = 0;
    }
}

/// Whether it is a pod that runs no more.
fn has_ended(owner: &Object) -> bool {
    let ApiObject::Pod(pod) = &owner.value else { return false };
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Failed" | "Succeeded"))
}

impl Behaviour for Collector {
    type Msg = WorkerMsg<CollectorView>;
    type Answer = CollectorAnswer;
    type Observed = CollectorView;

    fn started(&mut self, cx: &mut Cx<'_, Self>) {
        if self.peers.life.begin() {
            Kind::ALL.into_iter().for_each(|kind| self.schedule(cx, kind));
        }
    }

    fn handle(&mut self, msg: WorkerMsg<CollectorView>, cx: &mut Cx<'_, Self>) {
        match msg {
            WorkerMsg::News(ObjectNews::Changed(of, objects)) => {
                for (key, value) in objects {
                    self.known.set(of, key, value, cx.now());
                }
            }
            WorkerMsg::News(ObjectNews::Standing(of, standing)) => {
                self.known.set_standing(of, standing);
            }
            WorkerMsg::Show(reply) => reply.send(self.observe()),
        }
    }

    fn answered(&mut self, answer: CollectorAnswer, cx: &mut Cx<'_, Self>) {
        match answer {
            CollectorAnswer::Due(kind) => self.due(cx, kind),
            CollectorAnswer::Confirmed(answer) => self.confirmed(cx, answer),
            CollectorAnswer::Looked(answer) => self.looked(cx, answer),
            CollectorAnswer::Written(answer) => self.written(cx, answer),
        }
    }

    fn observe(&self) -> CollectorView {
        CollectorView { known: self.known.counts(), ..self.view.clone() }
    }
}
