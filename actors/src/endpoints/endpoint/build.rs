//! How an endpoint is built: state file, policy, permit, aside, flip, addresses.

use std::{rc::Rc, sync::Arc, time::Duration};

use ipnet::IpNet;

use super::{
    Brought, Endpoint, Realised, State, actor::answer_all, answers::EndpointAnswer,
    messages::Waiting, plan::Plan,
};
use crate::{
    endpoints::{
        build_queue::{BuildQueueMsg, Class, Permit},
        endpoint::{CreateError, Level, PatchError},
    },
    host::{AskError, Cx, Time},
    mutants::{Mutant, mutated},
    policy::{
        ipcache::{IpcacheEntry, IpcacheMsg},
        rules::{Changed, EndpointPolicy, PolicyMsg},
    },
    ports::{KernelError, KernelOp},
};

/// How long the policy may take; it waits for the first manifests at start.
const POLICY_PATIENCE: Duration = Duration::from_secs(60);
/// How long a permit may take: the whole node may be building.
const PERMIT_PATIENCE: Duration = Duration::from_secs(300);
/// How long the ipcache may take; it retries behind its answer.
const MAP_PATIENCE: Duration = Duration::from_secs(30);
/// After a failed build: that long, then twice, three times … as long.
pub(super) const RETRY_BASE: Duration = Duration::from_secs(2);
pub(super) const RETRY_MAX: Duration = Duration::from_secs(60);

/// Why an endpoint is built, and how much of it.
pub(super) struct Trigger {
    pub(super) level: Level,
    pub(super) reason: Arc<str>,
    pub(super) waiting: Vec<Waiting>,
    pub(super) class: Class,
    /// What came with it. Of two triggers that are one, each may stand for what the other does not
    /// know.
    pub(super) brought: Option<Brought>,
    /// Whether the kernel is read anew first.
    pub(super) looks: bool,
}

impl Trigger {
    pub(super) fn new(level: Level, reason: Arc<str>, waiting: Vec<Waiting>) -> Self {
        Self { level, reason, waiting, class: Class::Mass, brought: None, looks: false }
    }

    pub(super) fn create() -> Self {
        let reason = Arc::from("create endpoint from API PUT");
        Self { class: Class::NewPod, ..Self::new(Level::Rewrite, reason, Vec::new()) }
    }

    pub(super) fn restore() -> Self {
        Self::new(Level::Rewrite, Arc::from("syncing state to host"), Vec::new())
    }

    /// Makes one trigger of two: at the higher level, for everyone who waits.
    pub(super) fn merge(&mut self, other: Self) {
        if !mutated(Mutant::LevelNotRaised) {
            self.level = self.level.max(other.level);
        }
        self.class = self.class.min(other.class);
        self.looks |= other.looks;
        self.brought = None;
        self.waiting.extend(other.waiting);
    }
}

/// A build under way.
pub(super) struct Build {
    pub(super) trigger: Trigger,
    /// When it began.
    pub(super) since: Time,
    /// What it is at, for people.
    pub(super) step: &'static str,
    pub(super) policy: Option<Arc<EndpointPolicy>>,
    /// The change that the policy came with.
    pub(super) changed: Option<Changed>,
    /// Whether the policy that the kernel holds stays, for nobody knows another.
    pub(super) keeps: bool,
    pub(super) permit: Option<Permit>,
    pub(super) plan: Plan,
    /// Steps that the kernel works on.
    pub(super) submitted: Vec<KernelOp>,
}

impl Build {
    pub(super) fn new(trigger: Trigger, step: &'static str, since: Time) -> Self {
        Self {
            trigger,
            since,
            step,
            policy: None,
            changed: None,
            keeps: false,
            permit: None,
            plan: Plan::default(),
            submitted: Vec::new(),
        }
    }
}

impl Endpoint {
    /// Something wants a build: now if nothing runs, else after what runs.
    pub(super) fn trigger(&mut self, cx: &mut Cx<'_, Self>, trigger: Trigger) {
        if self.teardown.is_some() {
            return answer_all(trigger.waiting, &Err(PatchError::NotFound));
        }
        if self.build.is_none() && self.is_begun() && !self.busy {
            return self.build_from(cx, trigger);
        }
        self.store(trigger);
    }

    /// Whether it was told to begin, in this life of its actor.
    pub(super) fn is_begun(&self) -> bool {
        self.state == State::Ready || self.build.is_some() || self.identification.is_some()
    }

    /// Leaves something to the build after the one that runs.
    pub(super) fn store(&mut self, trigger: Trigger) {
        match &mut self.stored {
            _ if mutated(Mutant::CoalescedTriggerLost) => {}
            Some(stored) => stored.merge(trigger),
            None => self.stored = Some(trigger),
        }
    }

    /// Begins a build at its first step, with the identity that it has. One that never had any, or
    /// of which this life built nothing yet, waits for that first.
    pub(super) fn build_from(&mut self, cx: &mut Cx<'_, Self>, mut trigger: Trigger) {
        if self.teardown.is_some() || self.build.is_some() {
            return;
        }
        if let Some(mut first) = self.take_identity(cx) {
            first.merge(trigger);
            trigger = first;
        }
        if let Some(stored) = self.stored.take() {
            trigger.merge(stored);
        }
        if let Some(owed) = self.owed.take() {
            trigger.level = trigger.level.max(owed);
        }
        if self.identity_stale && self.realised.policy_revision == 0 {
            return self.identify(cx, trigger);
        }
        if trigger.looks {
            self.doubt();
        }
        let reason = Arc::clone(&trigger.reason);
        let (shown, changed) = (self.is_shown_waiting(&trigger), self.brought_policy(&trigger));
        self.build = Some(Build { changed, ..Build::new(trigger, "begin", cx.now()) });
        if self.state == State::WaitingForIdentity {
            self.become_state(cx, State::Ready, "it is built with the identity that it has");
        }
        if self.state == State::Ready {
            self.become_state(cx, State::WaitingToRegenerate, &reason);
            self.note(cx, "OK", &format!("Triggering endpoint regeneration due to {reason}"));
        }
        // Before the policy is asked: a change of it must find this endpoint by its labels.
        if !shown {
            self.publish(cx);
        }
        // What its labels are to be is written with the identity that goes with them; a file that
        // lacks them would be believed.
        let is_written = self.on_disk || self.identity_stale || self.unlabelled;
        if is_written { self.ask_policy(cx) } else { self.save(cx) }
    }

    /// Has the policy told, unless that came with what triggered the build.
    pub(super) fn ask_policy(&mut self, cx: &mut Cx<'_, Self>) {
        if self.unlabelled && self.may_keep() {
            return self.keep_policy(cx);
        }
        let changed = self.build.as_ref().and_then(|build| build.changed.as_ref());
        if let Some(policy) = changed.map(|changed| Arc::clone(&changed.policy)) {
            return self.resolved(cx, Ok(policy));
        }
        self.at_step("policy");
        let subject = self.subject();
        let peers = Rc::clone(&self.peers);
        let why = "the policy of its identity";
        if self.may_keep() {
            let make = |reply| PolicyMsg::ResolveOrKeep { subject, reply };
            return cx.ask(
                &peers.policy,
                POLICY_PATIENCE,
                why,
                make,
                EndpointAnswer::ResolvedOrKept,
            );
        }
        let make = |reply| PolicyMsg::Resolve { subject, reply };
        cx.ask(&peers.policy, POLICY_PATIENCE, why, make, EndpointAnswer::Resolved);
    }

    pub(super) fn resolved(
        &mut self,
        cx: &mut Cx<'_, Self>,
        answer: Result<Arc<EndpointPolicy>, AskError>,
    ) {
        let Some(build) = &mut self.build else { return };
        match answer {
            Ok(policy) => {
                self.heard = policy.revision;
                build.policy = Some(policy);
            }
            Err(error) => return self.fail(cx, &format!("policy was not computed: {error}")),
        }
        self.acquire(cx);
    }

    /// The policy stands: a permit, if something is to be read or built. Where rows change in place,
    /// nobody needs to wait for it.
    pub(super) fn acquire(&mut self, cx: &mut Cx<'_, Self>) {
        let read = self.known.as_ref().is_some_and(|known| known.policy.is_some());
        let plan = read.then(|| self.plan()).flatten();
        match (plan, &mut self.build) {
            (Some(plan), _) if plan.is_empty() => {
                self.become_state(cx, State::Regenerating, "compared");
                return self.map_addresses(cx);
            }
            (Some(plan), Some(build)) if plan.aside.is_empty() => {
                build.plan = plan;
                self.regenerating(cx);
                return self.flip(cx);
            }
            _ => self.at_step("permit"),
        }
        let class = self.build.as_ref().map_or(Class::Mass, |build| build.trigger.class);
        let endpoint = self.id;
        let peers = Rc::clone(&self.peers);
        cx.ask(
            &peers.build_queue,
            PERMIT_PATIENCE,
            "a build permit",
            |reply| BuildQueueMsg::Acquire { endpoint, class, reply },
            EndpointAnswer::Permitted,
        );
    }

    /// Others learn which identity its addresses have, last of all, unless they know.
    pub(super) fn map_addresses(&mut self, cx: &mut Cx<'_, Self>) {
        let entries = self.ipcache_entries();
        if self.mapped.as_ref() == Some(&entries) {
            return self.finish(cx);
        }
        self.at_step("ipcache");
        let peers = Rc::clone(&self.peers);
        let told = entries.clone();
        cx.ask(
            &peers.ipcache,
            MAP_PATIENCE,
            "its addresses in the ipcache",
            |reply| IpcacheMsg::Upsert { entries, reply },
            move |answer| EndpointAnswer::Mapped(told, answer),
        );
    }

    pub(super) fn mapped(
        &mut self,
        cx: &mut Cx<'_, Self>,
        told: Vec<(IpNet, IpcacheEntry)>,
        answer: Result<Result<(), KernelError>, AskError>,
    ) {
        self.mapped = matches!(answer, Ok(Ok(()))).then_some(told);
        if self.build.is_none() {
            return;
        }
        match answer {
            Ok(Ok(())) => self.finish(cx),
            Ok(Err(error)) => self.fail(cx, &format!("ipcache was not written: {error}")),
            Err(error) => self.fail(cx, &format!("ipcache was not written: {error}")),
        }
    }

    fn finish(&mut self, cx: &mut Cx<'_, Self>) {
        let Some(build) = self.build.take() else { return };
        self.builds += 1;
        self.last_build = cx.now().since(build.since);
        (self.failing, self.short) = (false, false);
        self.lost = self.lost.take().filter(|lost| lost.gone);
        self.failures_in_a_row = 0;
        self.last_error = None;
        if build.keeps {
            self.realise_kept();
        } else if let (Some(policy), Some(known)) = (&build.policy, &mut self.known) {
            known.share(&policy.rows);
            self.short = known.policy.as_ref().is_some_and(|rows| **rows != *policy.rows);
            let before = self.realised.whole_revision;
            self.realised = Arc::new(Realised {
                policy_revision: policy.revision,
                whole_revision: if self.short { before } else { policy.revision },
                labels: Arc::clone(&self.identity_labels),
                policy: known.policy.clone().unwrap_or_default(),
                attachment: known.attachment,
                ingress_enforced: policy.ingress_enforced,
                egress_enforced: policy.egress_enforced,
            });
        }
        let short = self.short.then_some(()).and(build.policy.as_ref());
        if let Some(lack) = short.map(|policy| self.lack_of_room(&policy.rows)) {
            self.failing = true;
            self.last_error = Some(Arc::from(lack));
        }
        (self.drift, self.kept) = (std::mem::take(&mut self.drifted).into(), None);
        self.keep_only_identity();
        let reason = Arc::clone(&build.trigger.reason);
        self.become_state(cx, State::Ready, &reason);
        let answer = match self.last_error.clone() {
            None => {
                let done = "Completed endpoint regeneration with no pending regeneration requests";
                self.note(cx, "OK", done);
                let reason =
                    format!("Successfully regenerated endpoint program (Reason: {reason})");
                self.note(cx, "OK", &reason);
                Ok(self.publish(cx))
            }
            Some(lack) => {
                self.note(cx, "Failed", &format!("Endpoint regenerated in part: {lack}"));
                self.publish(cx);
                Err(PatchError::Failed(lack.to_string()))
            }
        };
        if let Some(reply) = self.begin.take() {
            let failed = |error: PatchError| CreateError::Failed(error.to_string());
            reply.send(answer.clone().map_err(failed));
        }
        answer_all(build.trigger.waiting, &answer);
        self.await_identity(cx);
        if let Some(stored) = self.stored.take() {
            return self.build_from(cx, stored);
        }
        self.settle(cx);
        if !self.on_disk {
            // The kernel's own record stands in for the file meanwhile.
            self.retry_in(cx, RETRY_MAX);
        }
    }

    /// A build failed: the old generation serves on, and it is tried again.
    pub(super) fn fail(&mut self, cx: &mut Cx<'_, Self>, error: &str) {
        if mutated(Mutant::FailureReportedReady) && self.state == State::Regenerating {
            return self.finish(cx);
        }
        let Some(build) = self.build.take() else { return };
        tracing::warn!(endpoint = %self.id, step = build.step, error, "endpoint was not built");
        self.failures += 1;
        self.last_build = cx.now().since(build.since);
        self.failures_in_a_row += 1;
        self.failing = true;
        self.last_error = Some(Arc::from(error));
        if self.state == State::Restoring {
            self.become_state(cx, State::Regenerating, error);
        }
        if self.state == State::WaitingToRegenerate {
            self.become_state(cx, State::Regenerating, error);
        }
        self.become_state(cx, State::Ready, error);
        self.note(cx, "Failed", &format!("Error regenerating endpoint: {error}"));
        self.publish(cx);
        answer_all(build.trigger.waiting, &Err(PatchError::Failed(error.to_owned())));
        if self.begin.is_some() {
            return self.delete_unwanted(cx, error);
        }
        self.owed = self.owed.max(Some(build.trigger.level));
        self.await_identity(cx);
        // What was asked for meanwhile may well succeed.
        if let Some(stored) = self.stored.take() {
            return self.build_from(cx, stored);
        }
        self.retry_in(cx, RETRY_MAX.min(RETRY_BASE * self.failures_in_a_row));
    }

    /// Shows that its labels are to have another identity, if so.
    fn await_identity(&mut self, cx: &mut Cx<'_, Self>) {
        if self.identification.is_some() {
            self.become_state(cx, State::WaitingForIdentity, "its labels changed");
            self.publish(cx);
        }
    }

    pub(super) fn retry_in(&mut self, cx: &mut Cx<'_, Self>, wait: Duration) {
        if let Some(earlier) = self.retry.replace(cx.after(wait, EndpointAnswer::Retry)) {
            cx.cancel(earlier);
        }
    }

    pub(super) fn retry(&mut self, cx: &mut Cx<'_, Self>) {
        self.retry = None;
        if self.teardown.is_some() {
            return self.tear_down_again(cx);
        }
        if self.build.is_none() && !self.failing && self.lost.is_some() {
            self.repair(cx);
        } else if self.build.is_none() && (self.failing && !self.short || !self.on_disk) {
            let reason = Arc::from("datapath build failed previously");
            let trigger = Trigger::new(Level::Load, reason, Vec::new());
            let unidentified = self.identity_stale && self.identification.is_none();
            if unidentified {
                self.identify(cx, trigger);
            } else {
                self.trigger(cx, trigger);
            }
        }
    }

    /// What it is at, for people.
    pub(super) fn step(&self) -> Option<&'static str> {
        let identity = self.identification.as_ref().map(|under_way| under_way.step);
        self.build.as_ref().map(|build| build.step).or(identity)
    }

    pub(super) fn at_step(&mut self, step: &'static str) {
        if let Some(build) = &mut self.build {
            build.step = step;
        }
    }
}
