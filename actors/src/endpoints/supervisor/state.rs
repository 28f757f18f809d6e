//! The supervisor and its state: who lives under which number, and what is under way for whom.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    net::IpAddr,
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use super::{
    Announcer, EndpointsMsg, KernelLook, barrier::Barriers, child::SupervisedEndpoint,
    look::Unclaimed, numbers::EndpointNumbers, regenerations::Regenerations,
};
use crate::{
    endpoints::{
        endpoint::{CreateError, EndpointPeers, EndpointSpec, EndpointState, EndpointView},
        workloads::WorkloadsMsg,
    },
    host::{Lent, Outlet, Ref, Reply, Survives, Time, TimerId},
    model::{EndpointId, Labels},
    policy::rules::InheritResult,
};

/// How often the supervisor looks around, and how much an endpoint may queue.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    /// Time between two comparisons of the kernel with what was written.
    pub sweep: Duration,
    /// Time between two looks for endpoints whose interface vanished; the second look removes.
    pub collect: Duration,
    /// Capacity of an endpoint's mailbox, messages.
    pub queue: usize,
}

/// The supervisor of all endpoints.
pub struct Endpoints {
    pub(super) peers: Rc<EndpointPeers>,
    pub(super) workloads: Ref<WorkloadsMsg>,
    pub(super) schedule: Schedule,
    /// Outlives a crash.
    pub(super) family: Lent<EndpointsState>,
    /// What came before restored endpoints were known.
    pub(super) held: Vec<EndpointsMsg>,
    /// Whose policies of an earlier run are to know new prefixes.
    pub(super) inheriting: Option<Inheriting>,
    /// Endpoints whose interface was not there at the last look.
    pub(super) vanished: BTreeSet<EndpointId>,
    /// Those whose container and interface are gone, and how long that is seen.
    pub(super) unclaimed: BTreeMap<EndpointId, Unclaimed>,
    pub(super) collected: Time,
    /// When it is looked next for those who do not answer.
    pub(super) overdue: Option<TimerId>,
    pub(super) sweeping: bool,
    pub(super) verifying: Verifying,
    /// When the kernel was last asked what it shows.
    pub(super) looked: Time,
    /// How the endpoints were then, and which numbers were taken.
    pub(super) seen: Vec<Arc<EndpointView>>,
    pub(super) taken: BTreeSet<EndpointId>,
    pub(super) auditor: Outlet<KernelLook>,
}

impl Endpoints {
    /// Makes each life of the supervisor. `peers` lacks only its own address, which is there by
    /// the time its first message is.
    pub fn factory(
        peers: impl Fn() -> EndpointPeers + 'static,
        workloads: Ref<WorkloadsMsg>,
        auditor: Outlet<KernelLook>,
        schedule: Schedule,
    ) -> impl FnMut() -> Self + 'static {
        let family = Survives::<EndpointsState>::default();
        move || Self {
            peers: Rc::new(peers()),
            workloads: workloads.clone(),
            schedule,
            family: family.lend(),
            held: Vec::new(),
            inheriting: None,
            vanished: BTreeSet::new(),
            unclaimed: BTreeMap::new(),
            collected: Time::default(),
            overdue: None,
            sweeping: false,
            verifying: Verifying::default(),
            looked: Time::default(),
            seen: Vec::new(),
            taken: BTreeSet::new(),
            auditor: auditor.clone(),
        }
    }
}

/// Who lives under which number: what outlives a crash of the supervisor, as the endpoints do.
#[derive(Default)]
pub(super) struct EndpointsState {
    pub(super) numbers: EndpointNumbers,
    pub(super) children: BTreeMap<EndpointId, SupervisedEndpoint>,
    pub(super) restoring: Restoring,
    pub(super) creating: BTreeMap<u64, Creating>,
    pub(super) creations: u64,
    pub(super) barriers: Barriers,
    /// The newest revision of the policy of which all were told whom it concerns.
    pub(super) revision: u64,
    pub(super) regenerations: Regenerations,
    /// Nothing is left of earlier runs that nobody claims.
    pub(super) cleaned: bool,
    /// Whether there is to be a host endpoint.
    pub(super) host: bool,
    /// How this node is labelled, as far as that is known; `None` in it if nobody says it.
    pub(super) node_labels: Option<Option<Labels>>,
    /// Who tells the cluster of endpoints.
    pub(super) announcers: Vec<Announcer>,
}

pub(super) type CreateReply = Reply<Result<Arc<EndpointView>, CreateError>>;

/// An endpoint that is about to be.
pub(super) struct Creating {
    pub(super) id: EndpointId,
    pub(super) spec: EndpointSpec,
    pub(super) sync: bool,
    pub(super) reply: CreateReply,
    /// Labels that the caller said.
    pub(super) own_labels: Labels,
    /// What the cluster says of its pod is known.
    pub(super) described: bool,
    pub(super) unclaimed: VecDeque<IpAddr>,
    /// Addresses that it claimed, also one of which the answer was lost with a crash.
    pub(super) claimed: BTreeSet<IpAddr>,
    /// How often the supervisor crashed meanwhile.
    pub(super) crashes: u32,
}

/// Looks at all endpoints: one is under way at most, and the next one is for who asked meanwhile.
#[derive(Default)]
pub(super) struct Verifying {
    pub(super) under_way: bool,
    pub(super) next: Vec<Reply<bool>>,
}

/// Somebody who waits until policies of an earlier run know prefixes.
pub(super) struct Inheriting {
    pub(super) left: usize,
    pub(super) outcome: InheritResult,
    pub(super) reply: Reply<InheritResult>,
}

/// How each restored endpoint fared.
pub(super) type Outcomes = BTreeMap<EndpointId, Result<(), Arc<str>>>;

/// Restored endpoints on their way back.
#[derive(Default)]
pub(super) struct Restoring {
    /// Every restored endpoint is spawned: new ones may be made, and any may be deleted.
    pub(super) known: bool,
    pub(super) pending: BTreeSet<EndpointId>,
    pub(super) outcomes: Outcomes,
    pub(super) reply: Option<Reply<Outcomes>>,
}

impl Restoring {
    /// An endpoint changed: a restored one has settled once a build of it has ended.
    pub(super) fn seen(&mut self, view: &EndpointView) {
        if view.state == EndpointState::Ready && self.pending.remove(&view.id) {
            let outcome = match (&view.last_error, view.failing) {
                (Some(error), true) => Err(Arc::clone(error)),
                _ => Ok(()),
            };
            self.outcomes.insert(view.id, outcome);
            self.answer();
        }
    }

    /// Restored endpoints that have not settled.
    pub(super) fn pending(&self) -> &BTreeSet<EndpointId> {
        &self.pending
    }

    pub(super) fn gone(&mut self, id: EndpointId) {
        if self.pending.remove(&id) {
            self.outcomes.insert(id, Err(Arc::from("deleted while it was restored")));
            self.answer();
        }
    }

    pub(super) fn answer(&mut self) {
        if self.pending.is_empty()
            && let Some(reply) = self.reply.take()
        {
            reply.send(std::mem::take(&mut self.outcomes));
        }
    }
}
