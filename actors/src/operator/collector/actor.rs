//! Who removes what is left over, one object after the other.

use std::{collections::VecDeque, rc::Rc, time::Duration};

use serde_json::json;

use super::{
    CollectorMsg, CollectorView,
    answers::CollectorAnswer,
    leftovers::{HEARTBEAT, Kind, Known, Leftover},
};
use crate::{
    host::{AskError, Behaviour, Cx, Ref},
    model::Timestamp,
    mutants::{Mutant, mutated},
    operator::{
        ending::OnlyLife,
        leadership::LeadershipMsg,
        news::ObjectNews,
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
    /// For how many of the queue the Lease was confirmed.
    confirmed: usize,
    is_busy: bool,
    view: CollectorView,
}

impl Collector {
    pub(in crate::operator) fn new(peers: CollectorPeers, settings: CollectorSettings) -> Self {
        Self {
            peers,
            settings,
            known: Known::default(),
            queue: VecDeque::new(),
            confirmed: 0,
            is_busy: false,
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
        if self.is_busy {
            return;
        }
        let Some(next) = self.queue.front() else {
            self.confirmed = 0;
            return;
        };
        self.is_busy = true;
        if self.confirmed == 0 {
            let leadership = self.peers.leadership.clone();
            let confirm = |reply| LeadershipMsg::Confirm { prefixes: None, reply };
            let why = "the Lease, before something is removed";
            cx.ask(&leadership, CONFIRM_PATIENCE, why, confirm, CollectorAnswer::Confirmed);
            return;
        }
        let owner = match next.kind {
            _ if mutated(Mutant::OwnersUnasked) => None,
            Kind::Endpoints => Some((pods(), next.key.clone())),
            Kind::Nodes => Some((nodes(), next.key.clone())),
            // Its version says that nobody took it up.
            Kind::Identities => None,
        };
        match owner {
            Some((resource, key)) => {
                let why = format!("whether {} {key} is there", resource.kind);
                let reply = cx.expect("cluster", PATIENCE, why, CollectorAnswer::Looked);
                self.peers.cluster.get(&resource, &key, reply);
            }
            None => self.write(cx),
        }
    }

    fn confirmed(&mut self, cx: &mut Cx<'_, Self>, answer: Result<bool, AskError>) {
        self.is_busy = false;
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
        match answer {
            Ok(Ok(owner)) if !has_ended(&owner) => self.done(cx, false),
            Ok(Ok(_) | Err(ClusterError::NotFound(_))) => self.write(cx),
            Ok(Err(error)) => self.failed(cx, error.to_string()),
            Err(error) => self.failed(cx, error.to_string()),
        }
    }

    fn write(&mut self, cx: &mut Cx<'_, Self>) {
        let Some(next) = self.queue.front() else { return };
        let Leftover { kind, key, uid, version, marks } = next.clone();
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
        match answer {
            Ok(Ok(())) => self.done(cx, true),
            // It is another one by now, or gone.
            Ok(Err(ClusterError::Conflict(_) | ClusterError::NotFound(_))) => self.done(cx, false),
            Ok(Err(error)) => self.failed(cx, error.to_string()),
            Err(error) => self.failed(cx, error.to_string()),
        }
    }

    fn done(&mut self, cx: &mut Cx<'_, Self>, is_written: bool) {
        if let Some(Leftover { kind, key, marks, .. }) = self.queue.pop_front()
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
        self.confirmed = self.confirmed.saturating_sub(1);
        self.is_busy = false;
        self.advance(cx);
    }

    /// The server does not do what it should: the next round tries again.
    fn failed(&mut self, _: &mut Cx<'_, Self>, error: String) {
        let left = self.queue.len();
        tracing::warn!(error, left, "what is left over stays until the next round");
        self.view.failed += 1;
        self.view.error = Some(error);
        self.queue.clear();
        (self.is_busy, self.confirmed) = (false, 0);
    }
}

/// Whether it is a pod that runs no more.
fn has_ended(owner: &Object) -> bool {
    matches!(owner.value["status"]["phase"].as_str(), Some("Failed" | "Succeeded"))
}

impl Behaviour for Collector {
    type Msg = CollectorMsg;
    type Answer = CollectorAnswer;
    type Observed = CollectorView;

    fn started(&mut self, cx: &mut Cx<'_, Self>) {
        if self.peers.life.begin() {
            Kind::ALL.into_iter().for_each(|kind| self.schedule(cx, kind));
        }
    }

    fn handle(&mut self, msg: CollectorMsg, cx: &mut Cx<'_, Self>) {
        match msg {
            CollectorMsg::News(ObjectNews::Changed(of, objects)) => {
                for (key, value) in objects {
                    self.known.set(of, key, value, cx.now());
                }
            }
            CollectorMsg::News(ObjectNews::Standing(of, standing)) => {
                self.known.set_standing(of, standing);
            }
            CollectorMsg::Show(reply) => reply.send(self.observe()),
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
