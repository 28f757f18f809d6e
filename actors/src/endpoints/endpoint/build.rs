//! What triggers a build of an endpoint, and how one begins. What comes next in it says
//! `build/advance.rs`.

mod advance;
mod answers;
mod kernel;
mod outcome;

use std::{sync::Arc, time::Duration};

use super::{
    Endpoint, EndpointState, actor::answer_all, naming::Identification, phase::Build,
    stage::BuildStage, trigger::Trigger,
};
use crate::{
    endpoints::endpoint::PatchError,
    host::Cx,
    mutants::{Mutant, mutated},
};

/// How long the kernel may take for one job.
pub(super) const KERNEL_PATIENCE: Duration = Duration::from_secs(30);
/// After a failed build: that long, then twice, three times … as long.
pub(super) const RETRY_BASE: Duration = Duration::from_secs(2);
pub(super) const RETRY_MAX: Duration = Duration::from_secs(60);

impl Endpoint {
    /// Something wants a build: now if nothing runs, else after what runs.
    pub(super) fn trigger(&mut self, cx: &mut Cx<'_, Self>, trigger: Trigger) {
        if self.phase.is_going() {
            return answer_all(trigger.waiting, &Err(PatchError::NotFound));
        }
        if self.phase.is_idle() && self.is_begun() && !self.datapath.busy {
            return self.build_from(cx, trigger);
        }
        self.store(trigger);
    }

    /// Whether it is being created: somebody waits until it is there.
    pub(super) fn is_new(&self) -> bool {
        self.desired.creator.is_some()
    }

    /// Whether it was told to begin, in this life of its actor.
    pub(super) fn is_begun(&self) -> bool {
        let under_way = self.phase.is_building() || self.naming.identification.is_some();
        self.state == EndpointState::Ready || under_way
    }

    /// Leaves something to the build after the one that runs.
    pub(super) fn store(&mut self, trigger: Trigger) {
        match &mut self.desired.stored {
            _ if mutated(Mutant::CoalescedTriggerLost) => {}
            Some(stored) => stored.merge(trigger),
            None => self.desired.stored = Some(trigger),
        }
    }

    /// Begins a build at its first stage, with the identity that it has. One that never had any, or
    /// of which this life built nothing yet, waits for that first.
    pub(super) fn build_from(&mut self, cx: &mut Cx<'_, Self>, mut trigger: Trigger) {
        if !self.phase.is_idle() {
            return;
        }
        if let Some(mut first) = self.take_identity(cx) {
            first.merge(trigger);
            trigger = first;
        }
        if let Some(stored) = self.desired.stored.take() {
            trigger.merge(stored);
        }
        if let Some(owed) = self.desired.owed.take() {
            trigger.level = trigger.level.max(owed);
        }
        if self.naming.stale && self.realised.policy_revision == 0 {
            return self.identify(cx, trigger);
        }
        if trigger.looks {
            self.doubt();
        }
        let reason = Arc::clone(&trigger.reason);
        let (shown, brought) = (self.is_shown_waiting(&trigger), self.brought_policy(&trigger));
        if self.state == EndpointState::WaitingForIdentity {
            self.become_state(
                cx,
                EndpointState::Ready,
                "it is built with the identity that it has",
            );
        }
        if self.state == EndpointState::Ready {
            self.become_state(cx, EndpointState::WaitingToRegenerate, &reason);
            self.note(cx, "OK", &format!("Triggering endpoint regeneration due to {reason}"));
        }
        // Before the policy is asked: a change of it must find this endpoint by its labels.
        if !shown {
            self.publish(cx);
        }
        let build = Build { trigger, since: cx.now(), step: "begin" };
        self.advance(cx, build, BuildStage::Save(brought));
    }

    /// What it is at, for people.
    pub(super) fn step(&self) -> Option<&'static str> {
        let identity = self.naming.identification.as_ref().map(Identification::step);
        self.phase.step().or(identity)
    }
}
