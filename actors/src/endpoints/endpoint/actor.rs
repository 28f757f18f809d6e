//! The actor of one endpoint: its whole state, how it starts, and which of the other parts handles
//! each message and answer.

use std::{rc::Rc, sync::Arc};

use ipnet::IpNet;
use serde::Serialize;

use super::{
    EndpointMsg, EndpointPeers, EndpointSpec, EndpointState, Log, Realised,
    answers::EndpointAnswer,
    datapath::Datapath,
    lost::InterfaceWatch,
    messages::BuiltReply,
    naming::Naming,
    phase::EndpointPhase,
    realised::RealisedEndpoint,
    record::{Lasting, Saving, StoredEndpoint},
    reference::IdentityReference,
    results::Results,
    target::TargetPolicy,
    trigger::{PendingRequests, Trigger},
    view::EndpointView,
};
use crate::{
    endpoints::endpoint::{PatchError, RestoredEndpoint},
    host::{Behaviour, Cx, Lent, Survives, Time},
    model::{EndpointId, IdentityId},
    policy::ipcache::IpcacheEntry,
};

/// One endpoint.
///
/// A crash drops its fields in their order: whoever waits for one hears of it in that order.
pub struct Endpoint {
    pub(super) peers: Rc<EndpointPeers>,
    pub(super) lasting: Lent<Lasting>,
    pub(super) id: EndpointId,
    pub(super) state: EndpointState,
    /// What its state file says, or is to say.
    pub(super) record: StoredEndpoint,
    /// Counts what was changed of it by others.
    pub(super) edition: u64,
    pub(super) naming: Naming,
    /// References to its identity and to those before it that packets may still carry. They
    /// outlive a crash, as the kernel's rows do.
    pub(super) references: Lent<Vec<IdentityReference>>,
    pub(super) policy: PolicyHeard,
    pub(super) realised: Arc<Realised>,
    /// What the ipcache holds of it, as far as it said so.
    pub(super) mapped: Option<Vec<(IpNet, IpcacheEntry)>>,
    pub(super) phase: EndpointPhase,
    pub(super) saving: Saving,
    pub(super) desired: PendingRequests,
    pub(super) datapath: Datapath,
    pub(super) interface: InterfaceWatch,
    pub(super) results: Results,
    pub(super) journal: Journal,
    reborn: bool,
}

/// What an endpoint heard of everyone's policy.
#[derive(Default)]
pub(super) struct PolicyHeard {
    /// The newest revision that this life of the actor heard of.
    pub(super) heard: u64,
    /// The first policies are waited for: it keeps that of the run before until then.
    pub(super) awaited: bool,
}

/// What an endpoint tells of itself.
#[derive(Default)]
pub(super) struct Journal {
    /// When it last changed its state.
    pub(super) since: Time,
    pub(super) log: Log,
    /// How it said last that it looks.
    pub(super) shown: Option<Arc<EndpointView>>,
}

/// What an endpoint shows of itself.
#[derive(Debug, Serialize)]
pub struct EndpointActorStatus {
    id: EndpointId,
    state: EndpointState,
    failing: bool,
    identity: IdentityId,
    policy_revision: u64,
    building: Option<&'static str>,
    stored: bool,
    builds: u64,
    failures: u64,
    last_error: Option<Arc<str>>,
}

impl Endpoint {
    /// Makes an actor for a new endpoint; call again after each crash.
    pub fn maker(
        peers: Rc<EndpointPeers>,
        id: EndpointId,
        spec: EndpointSpec,
    ) -> impl FnMut() -> Self {
        let known = RealisedEndpoint { up: spec.is_up(None), ..RealisedEndpoint::default() };
        let record = StoredEndpoint::new(spec, peers.settings.options.clone());
        let lasting = Lasting { record, untidied: Vec::new(), deleted: false };
        Self::lives(peers, id, lasting, EndpointState::WaitingForIdentity, known, Vec::new())
    }

    /// Makes an actor for a restored endpoint; call again after each crash.
    pub fn restorer(peers: Rc<EndpointPeers>, mut from: RestoredEndpoint) -> impl FnMut() -> Self {
        let known = RealisedEndpoint::restored(&mut from);
        let (custom, disabled) = from.user_labels;
        let record = StoredEndpoint {
            spec: Arc::new(from.spec),
            identity: from.identity,
            identity_labels: Arc::new(from.identity_labels),
            user_labels: (Arc::new(custom), Arc::new(disabled)),
            options: from.options,
            own_options: Arc::new(from.own_options),
            on_disk: from.on_disk,
            unlabelled: from.unlabelled,
        };
        let lasting = Lasting { record, untidied: from.untidied, deleted: false };
        Self::lives(peers, from.id, lasting, EndpointState::Restoring, known, from.carried)
    }

    /// Makes each life of an actor: the first in that state, knowing that of the kernel.
    fn lives(
        peers: Rc<EndpointPeers>,
        id: EndpointId,
        lasting: Lasting,
        state: EndpointState,
        known: RealisedEndpoint,
        carried: Vec<IdentityReference>,
    ) -> impl FnMut() -> Self {
        let mut known = Some(known);
        // Whoever restores has told of all.
        let restored = state == EndpointState::Restoring;
        let mut ports_known = restored.then(|| lasting.record.spec.named_ports.clone());
        let (lasting, references) = (Survives::new(lasting), Survives::new(carried));
        let mut state = Some(state);
        move || {
            let first = state.take();
            let lasting = lasting.lend();
            let record = lasting.record.clone();
            Self {
                peers: Rc::clone(&peers),
                lasting,
                id,
                state: first.unwrap_or(EndpointState::Restoring),
                record,
                edition: 0,
                naming: Naming {
                    info_labels: Arc::default(),
                    stale: true,
                    ports_known: ports_known.take(),
                    identification: None,
                },
                references: references.lend(),
                policy: PolicyHeard::default(),
                realised: Arc::default(),
                mapped: None,
                phase: EndpointPhase::Idle,
                saving: Saving::default(),
                desired: PendingRequests::default(),
                datapath: Datapath { known: known.take(), ..Datapath::default() },
                interface: InterfaceWatch::default(),
                results: Results::default(),
                journal: Journal::default(),
                reborn: first.is_none(),
            }
        }
    }
}

impl Behaviour for Endpoint {
    type Msg = EndpointMsg;
    type Answer = EndpointAnswer;
    type Observed = EndpointActorStatus;

    fn started(&mut self, cx: &mut Cx<'_, Self>) {
        self.journal.since = cx.now();
        if self.reborn && self.lasting.deleted {
            return self.begin_teardown(cx, Vec::new());
        }
        if self.reborn {
            self.note(cx, "Failed", "Endpoint actor crashed; restoring from what is known");
            self.build_from(cx, Trigger::restore());
        } else if self.state == EndpointState::WaitingForIdentity {
            self.note(cx, "OK", "Endpoint creation");
        } else {
            self.note(cx, "OK", "Restoring endpoint from previous agent life");
        }
        self.publish(cx);
    }

    fn handle(&mut self, msg: EndpointMsg, cx: &mut Cx<'_, Self>) {
        match msg {
            EndpointMsg::Begin { reply } => {
                self.desired.creator = reply;
                self.build_from(cx, Trigger::create());
            }
            EndpointMsg::RegenerateAfterRestore => self.build_from(cx, Trigger::restore()),
            EndpointMsg::Regenerate { level, reason, brought, waiting, looks } => {
                let trigger = Trigger { brought, looks, ..Trigger::new(level, reason, waiting) };
                self.trigger(cx, trigger);
            }
            EndpointMsg::Patch { patch, reply } => self.patch(cx, *patch, reply),
            EndpointMsg::Pod(facts) => self.describe(cx, facts),
            EndpointMsg::Delete { reply } => self.delete(cx, reply),
            EndpointMsg::Audit { snapshot, rows, asked, policy_differs } => {
                self.audit(cx, &snapshot, &rows, asked, policy_differs);
            }
            EndpointMsg::Probed { probe, asked, reply } => {
                self.probed(cx, &probe, asked);
                reply.send(());
            }
            EndpointMsg::Inherit { slot, successors, reply } => {
                self.inherit(cx, slot, successors, reply)
            }
        }
        self.take_up_legacy(cx);
        self.take_up_missed();
    }

    fn answered(&mut self, answer: EndpointAnswer, cx: &mut Cx<'_, Self>) {
        match answer {
            EndpointAnswer::Bequest { slot, successors, reply, answer } => {
                self.inherited_policy_read(cx, slot, &successors, reply, answer);
            }
            EndpointAnswer::Inherited { submitted, reply, answer } => {
                self.inherited_policy_written(cx, &submitted, reply, answer);
            }
            EndpointAnswer::Identified(answer) => self.identified(cx, answer),
            EndpointAnswer::Learned(answer) => self.learned(cx, answer),
            EndpointAnswer::Saved(write, answer) => self.saved(cx, write, answer),
            EndpointAnswer::Resolved(answer) => {
                self.resolved(cx, answer.map(TargetPolicy::Resolved))
            }
            EndpointAnswer::ResolvedOrRetained(answer) => self.resolved_or_kept(cx, answer),
            EndpointAnswer::PoliciesKnown(answer) => self.policies_known(cx, answer),
            EndpointAnswer::Permitted(answer) => self.permitted(cx, answer),
            EndpointAnswer::Read(answer) => self.read(cx, answer),
            EndpointAnswer::Built(answer) => self.built(cx, answer),
            EndpointAnswer::Flipped(answer) => self.flipped(cx, answer),
            EndpointAnswer::Mapped(reported, answer) => self.mapped(cx, reported, answer),
            EndpointAnswer::SettleNow => self.settle_now(cx),
            EndpointAnswer::Settled(answer) => self.settled(cx, answer),
            EndpointAnswer::Retry => self.retry(cx),
            EndpointAnswer::LookAgain => self.look_again(),
            EndpointAnswer::TornDown(answer) => self.torn_down(cx, answer),
            EndpointAnswer::Unmapped(answer) => self.unmapped(cx, answer),
            EndpointAnswer::Forgotten(answer) => self.forgotten(cx, answer),
        }
        self.take_up_legacy(cx);
        self.take_up_missed();
    }

    fn observe(&self) -> EndpointActorStatus {
        EndpointActorStatus {
            id: self.id,
            state: self.state,
            failing: self.results.outcome.is_failing(),
            identity: self.record.identity,
            policy_revision: self.realised.policy_revision,
            building: self.step(),
            stored: self.desired.stored.is_some(),
            builds: self.results.counts.builds,
            failures: self.results.counts.failures,
            last_error: self.results.last_error.clone(),
        }
    }
}

/// Answers everyone who waited for a build.
pub(super) fn answer_all(waiting: Vec<BuiltReply>, answer: &Result<Arc<EndpointView>, PatchError>) {
    for reply in waiting {
        reply.send(answer.clone());
    }
}
