//! The actor of one endpoint: its whole state, how it starts, and which of the other parts handles
//! each message and answer.

use std::{collections::BTreeMap, rc::Rc, sync::Arc, time::Duration};

use ipnet::IpNet;
use serde::Serialize;

use super::{
    EndpointMsg, EndpointSpec, Log, Lost, Peers, Realised, State,
    answers::EndpointAnswer,
    build::{Build, Trigger},
    heirs::Legacy,
    identity::Identification,
    known::Known,
    messages::Waiting,
    reference::Held,
    teardown::Teardown,
    view::EndpointView,
};
use crate::{
    endpoints::endpoint::{CreateError, Level, PatchError, RestoredEndpoint},
    host::{Behaviour, Cx, Lent, Reply, Survives, Time, TimerId},
    model::{
        EndpointId, IdentityId, Labels, NamedPorts, PolicyRows, drift::Drift, repairs::Repairs,
    },
    policy::ipcache::IpcacheEntry,
    ports::FsOp,
};

/// What of an endpoint outlives a crash of its actor: as much as its state file holds.
#[derive(Clone, Debug)]
pub struct Seed {
    pub(super) id: EndpointId,
    pub(super) spec: Arc<EndpointSpec>,
    pub(super) identity: IdentityId,
    pub(super) identity_labels: Arc<Labels>,
    pub(super) user_labels: (Arc<Labels>, Arc<Labels>),
    pub(super) options: Arc<BTreeMap<String, i64>>,
    pub(super) own_options: Arc<BTreeMap<String, i64>>,
    pub(super) on_disk: bool,
    /// Its labels are lost and not yet told again.
    pub(super) unlabelled: bool,
    /// Steps that come before its state directories may be written.
    pub(super) untidied: Vec<FsOp>,
    /// It was told to go.
    pub(super) deleted: bool,
}

/// One endpoint.
pub struct Endpoint {
    pub(super) peers: Rc<Peers>,
    pub(super) seed: Lent<Seed>,
    pub(super) id: EndpointId,
    pub(super) state: State,
    pub(super) since: Time,
    pub(super) spec: Arc<EndpointSpec>,
    pub(super) identity: IdentityId,
    pub(super) identity_labels: Arc<Labels>,
    pub(super) info_labels: Arc<Labels>,
    pub(super) user_labels: (Arc<Labels>, Arc<Labels>),
    /// Its labels are lost and not yet told again: it keeps the policy that the kernel holds.
    pub(super) unlabelled: bool,
    /// Its labels changed, or were never looked up: its identity is that of others.
    pub(super) identity_stale: bool,
    /// The identity that goes with its labels, on its way.
    pub(super) identification: Option<Identification>,
    /// References to its identity and to those before it that packets may still carry. They
    /// outlive a crash, as the kernel's rows do.
    pub(super) references: Lent<Vec<Held>>,
    /// Names of its ports as everyone's policy knows them.
    pub(super) ports_known: Option<NamedPorts>,
    pub(super) options: Arc<BTreeMap<String, i64>>,
    /// Those of them that were set for it alone.
    pub(super) own_options: Arc<BTreeMap<String, i64>>,
    /// Its state file says what is true.
    pub(super) on_disk: bool,
    /// Counts what was changed of it by others.
    pub(super) edition: u64,
    /// The edition that is being written to its state file.
    pub(super) saving: Option<u64>,
    /// What the kernel holds; `None` until it is read.
    pub(super) known: Option<Known>,
    /// What it was known to hold, where it is read anew to see what drifted.
    pub(super) believed: Option<Known>,
    /// The policy that it keeps, where somebody else changed it in the kernel.
    pub(super) kept: Option<Arc<PolicyRows>>,
    /// What drifted, and the next build puts right, or the last one did.
    pub(super) drifted: Vec<Drift>,
    pub(super) drift: Arc<[Drift]>,
    /// When the kernel last did something for it.
    pub(super) worked_at: Time,
    pub(super) realised: Arc<Realised>,
    /// The newest revision of the policy that this life of the actor heard of.
    pub(super) heard: u64,
    /// How it said last that it looks.
    pub(super) shown: Option<Arc<EndpointView>>,
    /// What the ipcache holds of it, as far as it said so.
    pub(super) mapped: Option<Vec<(IpNet, IpcacheEntry)>>,
    pub(super) build: Option<Build>,
    /// What was triggered while a build ran.
    pub(super) stored: Option<Trigger>,
    pub(super) begin: Option<Reply<Result<Arc<EndpointView>, CreateError>>>,
    pub(super) teardown: Option<Teardown>,
    /// A job is in the kernel's hands: what is known of it may be behind.
    pub(super) busy: bool,
    /// New prefixes that its policy of an earlier life is to know, once the kernel has answered.
    pub(super) legacy: Option<Legacy>,
    /// It keeps the policy of the life before until another is known.
    pub(super) keeping: bool,
    /// Links are being made in place of its filters, beside all else.
    pub(super) settling: bool,
    /// What keeps it from being served, by what was seen last.
    pub(super) lost: Option<Lost>,
    /// Something was seen that could not be taken in.
    pub(super) missed: bool,
    pub(super) repairs: Repairs,
    pub(super) failing: bool,
    pub(super) refused: bool,
    /// Its policy map has no room for all of its policy.
    pub(super) short: bool,
    pub(super) failures_in_a_row: u32,
    /// What a failed build was to do; the next one does it.
    pub(super) owed: Option<Level>,
    pub(super) retry: Option<TimerId>,
    pub(super) builds: u64,
    pub(super) last_build: Duration,
    pub(super) failures: u64,
    pub(super) last_error: Option<Arc<str>>,
    pub(super) log: Log,
    reborn: bool,
}

/// What an endpoint shows of itself.
#[derive(Debug, Serialize)]
pub struct Observed {
    id: EndpointId,
    state: State,
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
    pub fn maker(peers: Rc<Peers>, id: EndpointId, spec: EndpointSpec) -> impl FnMut() -> Self {
        let options = Arc::new(peers.settings.options.clone());
        let seed = Seed {
            id,
            spec: Arc::new(spec),
            identity: IdentityId::INIT,
            identity_labels: Arc::default(),
            user_labels: Default::default(),
            options,
            own_options: Arc::default(),
            on_disk: false,
            unlabelled: false,
            untidied: Vec::new(),
            deleted: false,
        };
        Self::from_seed(peers, seed, State::WaitingForIdentity, Known::default(), Vec::new())
    }

    /// Makes an actor for a restored endpoint; call again after each crash.
    pub fn restorer(peers: Rc<Peers>, mut from: RestoredEndpoint) -> impl FnMut() -> Self {
        let known = Known::restored(&mut from);
        let (custom, disabled) = from.user_labels;
        let seed = Seed {
            id: from.id,
            spec: Arc::new(from.spec),
            identity: from.identity,
            identity_labels: Arc::new(from.identity_labels),
            user_labels: (Arc::new(custom), Arc::new(disabled)),
            options: from.options,
            own_options: Arc::new(from.own_options),
            on_disk: from.on_disk,
            unlabelled: from.unlabelled,
            untidied: from.untidied,
            deleted: false,
        };
        Self::from_seed(peers, seed, State::Restoring, known, from.carried)
    }

    fn from_seed(
        peers: Rc<Peers>,
        seed: Seed,
        state: State,
        known: Known,
        carried: Vec<Held>,
    ) -> impl FnMut() -> Self {
        let mut known = Some(known);
        // Whoever restores has told of all.
        let restored = state == State::Restoring;
        let mut ports_known = restored.then(|| seed.spec.named_ports.clone());
        let (seed, references) = (Survives::new(seed), Survives::new(carried));
        let mut state = Some(state);
        move || {
            let first = state.take();
            let seed = seed.lend();
            let of = (*seed).clone();
            Self {
                peers: Rc::clone(&peers),
                seed,
                id: of.id,
                state: first.unwrap_or(State::Restoring),
                since: Time::default(),
                spec: of.spec,
                identity: of.identity,
                identity_labels: of.identity_labels,
                info_labels: Arc::default(),
                user_labels: of.user_labels,
                unlabelled: of.unlabelled,
                identity_stale: true,
                identification: None,
                references: references.lend(),
                ports_known: ports_known.take(),
                options: of.options,
                own_options: of.own_options,
                on_disk: of.on_disk,
                edition: 0,
                saving: None,
                known: known.take(),
                believed: None,
                kept: None,
                drifted: Vec::new(),
                drift: Arc::from([]),
                worked_at: Time::default(),
                realised: Arc::default(),
                heard: 0,
                shown: None,
                mapped: None,
                build: None,
                stored: None,
                begin: None,
                teardown: None,
                busy: false,
                legacy: None,
                keeping: false,
                settling: false,
                lost: None,
                missed: false,
                repairs: Repairs::default(),
                failing: false,
                refused: false,
                short: false,
                failures_in_a_row: 0,
                owed: None,
                retry: None,
                builds: 0,
                last_build: Duration::ZERO,
                failures: 0,
                last_error: None,
                log: Log::default(),
                reborn: first.is_none(),
            }
        }
    }
}

impl Behaviour for Endpoint {
    type Msg = EndpointMsg;
    type Answer = EndpointAnswer;
    type Observed = Observed;

    fn started(&mut self, cx: &mut Cx<'_, Self>) {
        self.since = cx.now();
        if self.reborn && self.seed.deleted {
            return self.begin_teardown(cx, Vec::new());
        }
        if self.reborn {
            self.note(cx, "Failed", "Endpoint actor crashed; restoring from what is known");
            self.build_from(cx, Trigger::restore());
        } else if self.state == State::WaitingForIdentity {
            self.note(cx, "OK", "Endpoint creation");
        } else {
            self.note(cx, "OK", "Restoring endpoint from previous agent life");
        }
        self.publish(cx);
    }

    fn handle(&mut self, msg: EndpointMsg, cx: &mut Cx<'_, Self>) {
        match msg {
            EndpointMsg::Begin { reply } => {
                self.begin = reply;
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
            EndpointMsg::Inherit { slot, heirs, reply } => self.inherit(cx, slot, heirs, reply),
        }
        self.take_up_legacy(cx);
        self.take_up_missed();
    }

    fn answered(&mut self, answer: EndpointAnswer, cx: &mut Cx<'_, Self>) {
        match answer {
            EndpointAnswer::Bequest { slot, heirs, reply, answer } => {
                self.bequest(cx, slot, &heirs, reply, answer);
            }
            EndpointAnswer::Inherited { submitted, reply, answer } => {
                self.bequeathed(cx, &submitted, reply, answer);
            }
            EndpointAnswer::Identified(answer) => self.identified(cx, answer),
            EndpointAnswer::Learned(answer) => self.learned(cx, answer),
            EndpointAnswer::Saved(answer) => self.saved(cx, answer),
            EndpointAnswer::Resolved(answer) => self.resolved(cx, answer),
            EndpointAnswer::ResolvedOrKept(answer) => self.resolved_or_kept(cx, answer),
            EndpointAnswer::PoliciesKnown(answer) => self.policies_known(cx, answer),
            EndpointAnswer::Permitted(answer) => self.permitted(cx, answer),
            EndpointAnswer::Read(answer) => self.read(cx, answer),
            EndpointAnswer::Built(answer) => self.built(cx, answer),
            EndpointAnswer::Flipped(answer) => self.flipped(cx, answer),
            EndpointAnswer::Mapped(told, answer) => self.mapped(cx, told, answer),
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

    fn observe(&self) -> Observed {
        Observed {
            id: self.id,
            state: self.state,
            failing: self.failing,
            identity: self.identity,
            policy_revision: self.realised.policy_revision,
            building: self.step(),
            stored: self.stored.is_some(),
            builds: self.builds,
            failures: self.failures,
            last_error: self.last_error.clone(),
        }
    }
}

/// Answers everyone who waited for a build.
pub(super) fn answer_all(waiting: Vec<Waiting>, answer: &Result<Arc<EndpointView>, PatchError>) {
    for reply in waiting {
        reply.send(answer.clone());
    }
}
