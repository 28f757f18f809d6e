//! How a build ends: well, or not, and when what failed is tried again.

use std::{sync::Arc, time::Duration};

use super::{
    super::{
        Endpoint, EndpointState, Realised, actor::answer_all, answers::EndpointAnswer,
        phase::Build, results::BuildOutcome, target::TargetPolicy, trigger::Trigger,
    },
    RETRY_BASE, RETRY_MAX,
};
use crate::{
    endpoints::endpoint::{CreateError, Level, PatchError},
    host::Cx,
    mutants::{Mutant, mutated},
    policy::rules::EndpointPolicy,
};

impl Endpoint {
    /// A build is done.
    pub(super) fn finish(&mut self, cx: &mut Cx<'_, Self>, build: Build, target: &TargetPolicy) {
        let Build { trigger, since, .. } = build;
        let counts = &mut self.results.counts;
        counts.builds += 1;
        counts.last_build = cx.now().since(since);
        counts.failures_in_a_row = 0;
        self.interface.lost = self.interface.lost.take().filter(|lost| lost.gone);
        let lack = match target.policy() {
            Some(policy) => self.realise(policy),
            None => {
                self.realise_kept();
                None
            }
        };
        self.results.outcome =
            if lack.is_some() { BuildOutcome::Short } else { BuildOutcome::Whole };
        self.results.last_error = lack.map(Arc::from);
        self.results.drift = std::mem::take(&mut self.datapath.drifted).into();
        self.datapath.retained = None;
        self.keep_only_identity();
        let reason = Arc::clone(&trigger.reason);
        self.become_state(cx, EndpointState::Ready, &reason);
        let answer = match self.results.last_error.clone() {
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
        let is_new = self.is_new();
        if let Some(reply) = self.desired.creator.take() {
            let failed = |error: PatchError| CreateError::Failed(error.to_string());
            reply.send(answer.clone().map_err(failed));
        }
        answer_all(trigger.waiting, &answer);
        self.await_identity(cx);
        if let Some(stored) = self.desired.stored.take() {
            return self.build_from(cx, stored);
        }
        match is_new {
            true => self.settle_later(cx),
            false => self.settle(cx),
        }
        if !self.record.on_disk {
            // The kernel's own record stands in for the file meanwhile.
            self.retry_in(cx, RETRY_MAX);
        }
    }

    /// The kernel does what that policy wants, but for what its map has no room for: what people
    /// are told of that.
    fn realise(&mut self, policy: &EndpointPolicy) -> Option<String> {
        let known = self.datapath.known.as_mut()?;
        known.share(&policy.rows);
        let short = known.policy.as_ref().is_some_and(|rows| **rows != *policy.rows);
        let before = self.realised.whole_revision;
        self.realised = Arc::new(Realised {
            policy_revision: policy.revision,
            whole_revision: if short { before } else { policy.revision },
            labels: Arc::clone(&self.record.identity_labels),
            policy: known.policy.clone().unwrap_or_default(),
            attachment: known.attachment,
            ingress_enforced: policy.ingress_enforced,
            egress_enforced: policy.egress_enforced,
        });
        short.then(|| self.lack_of_room(&policy.rows))
    }

    /// A build failed whose policy stood.
    pub(super) fn fail_after(
        &mut self,
        cx: &mut Cx<'_, Self>,
        build: Build,
        target: &TargetPolicy,
        error: &str,
    ) {
        if mutated(Mutant::FailureReportedReady) {
            return self.finish(cx, build, target);
        }
        self.fail(cx, build, error);
    }

    /// What is to be built cannot be said: nobody knows what the kernel holds.
    pub(super) fn nothing_known(
        &mut self,
        cx: &mut Cx<'_, Self>,
        build: Build,
        target: &TargetPolicy,
    ) {
        let error = match target {
            TargetPolicy::Retained => "the kernel holds no policy that could be kept",
            TargetPolicy::Brought(_) | TargetPolicy::Resolved(_) => {
                "it is not known what the kernel holds"
            }
        };
        self.fail_after(cx, build, target, error);
    }

    /// A build failed: the old generation serves on, and it is tried again.
    pub(in super::super) fn fail(&mut self, cx: &mut Cx<'_, Self>, build: Build, error: &str) {
        let Build { trigger, since, step } = build;
        tracing::warn!(endpoint = %self.id, step, error, "endpoint was not built");
        let counts = &mut self.results.counts;
        counts.failures += 1;
        counts.last_build = cx.now().since(since);
        counts.failures_in_a_row += 1;
        if self.results.outcome == BuildOutcome::Whole {
            self.results.outcome = BuildOutcome::Failed;
        }
        self.results.last_error = Some(Arc::from(error));
        if matches!(self.state, EndpointState::Restoring | EndpointState::WaitingToRegenerate) {
            self.become_state(cx, EndpointState::Regenerating, error);
        }
        self.become_state(cx, EndpointState::Ready, error);
        self.note(cx, "Failed", &format!("Error regenerating endpoint: {error}"));
        self.publish(cx);
        answer_all(trigger.waiting, &Err(PatchError::Failed(error.to_owned())));
        if self.is_new() {
            return self.delete_unwanted(cx, error);
        }
        self.desired.owed = self.desired.owed.max(Some(trigger.level));
        self.await_identity(cx);
        // What was asked for meanwhile may well succeed.
        if let Some(stored) = self.desired.stored.take() {
            return self.build_from(cx, stored);
        }
        self.retry_in(cx, RETRY_MAX.min(RETRY_BASE * self.results.counts.failures_in_a_row));
    }

    /// Shows that its labels are to have another identity, if so.
    fn await_identity(&mut self, cx: &mut Cx<'_, Self>) {
        if self.naming.identification.is_some() && self.is_relabelled() {
            self.become_state(cx, EndpointState::WaitingForIdentity, "its labels changed");
            self.publish(cx);
        }
    }

    pub(in super::super) fn retry_in(&mut self, cx: &mut Cx<'_, Self>, wait: Duration) {
        let timer = cx.after(wait, EndpointAnswer::Retry);
        if let Some(earlier) = self.desired.retry.replace(timer) {
            cx.cancel(earlier);
        }
    }

    pub(in super::super) fn retry(&mut self, cx: &mut Cx<'_, Self>) {
        self.desired.retry = None;
        if self.phase.is_going() {
            return self.tear_down_again(cx);
        }
        if !self.phase.is_idle() {
            return;
        }
        let outcome = self.results.outcome;
        if outcome == BuildOutcome::Whole && self.interface.lost.is_some() {
            self.repair(cx);
        } else if outcome == BuildOutcome::Failed || !self.record.on_disk {
            let reason = Arc::from("datapath build failed previously");
            let trigger = Trigger::new(Level::Load, reason, Vec::new());
            if self.naming.stale && self.naming.identification.is_none() {
                self.identify(cx, trigger);
            } else {
                self.trigger(cx, trigger);
            }
        }
    }
}
