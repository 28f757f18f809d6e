//! The kernel's part of a build: read, aside, flip.

use std::{sync::Arc, time::Duration};

use super::{
    Endpoint, State,
    answers::EndpointAnswer,
    known::Known,
    plan::{Plan, plan},
};
use crate::{
    endpoints::build_queue::Permit,
    host::{AskError, Cx},
    ports::{KernelDone, KernelJob, KernelOp, KernelOutcome, OwnedRows},
};

/// How long the kernel may take for one job.
pub(super) const KERNEL_PATIENCE: Duration = Duration::from_secs(30);

impl Endpoint {
    pub(super) fn permitted(&mut self, cx: &mut Cx<'_, Self>, answer: Result<Permit, AskError>) {
        let Some(build) = &mut self.build else { return };
        match answer {
            Ok(permit) => build.permit = Some(permit),
            Err(error) => return self.fail(cx, &format!("no build permit: {error}")),
        }
        self.regenerating(cx);
        self.publish(cx);
        match &self.known {
            None => {
                self.submit(cx, "read the kernel", vec![KernelOp::Snapshot], EndpointAnswer::Read)
            }
            Some(Known { config: Some(config), policy: None, .. }) => {
                let ops = vec![KernelOp::ReadPolicy { slot: config.policy_slot }];
                self.submit(cx, "read the policy map", ops, EndpointAnswer::Read);
            }
            Some(_) => self.build_aside(cx),
        }
    }

    /// It is being changed from now on.
    pub(super) fn regenerating(&mut self, cx: &Cx<'_, Self>) {
        let Some(build) = &self.build else { return };
        let reason = Arc::clone(&build.trigger.reason);
        self.become_state(cx, State::Regenerating, &reason);
        self.note(cx, "OK", &format!("Regenerating endpoint: {reason}"));
    }

    pub(super) fn read(&mut self, cx: &mut Cx<'_, Self>, answer: Result<KernelDone, AskError>) {
        let Some(done) = self.kernel_answer(cx, answer) else { return };
        match done.outcomes.into_iter().next() {
            Some(KernelOutcome::Snapshot(snapshot)) => {
                let rows = OwnedRows::of(&snapshot);
                let known = Known::seen(&snapshot, &rows, self.id, &self.spec);
                self.compare_rows(&known, &snapshot);
                let slot = known.config.map(|config| config.policy_slot);
                self.known = Some(known);
                if let Some(slot) = slot {
                    let ops = vec![KernelOp::ReadPolicy { slot }];
                    return self.submit(cx, "read the policy map", ops, EndpointAnswer::Read);
                }
            }
            Some(KernelOutcome::Policy(rows)) => {
                self.compare_policy(rows.as_ref());
                if let Some(known) = &mut self.known {
                    match rows {
                        Some(rows) => known.policy = Some(Arc::new(rows)),
                        // The row names a slot without a map: every packet is dropped. Build anew.
                        None => known.config = None,
                    }
                }
            }
            _ => {}
        }
        self.build_aside(cx);
    }

    fn build_aside(&mut self, cx: &mut Cx<'_, Self>) {
        let Some(plan) = self.plan() else { return self.nothing_kept(cx) };
        let Some(build) = &mut self.build else { return };
        build.plan = plan;
        let ops = std::mem::take(&mut build.plan.aside);
        if ops.is_empty() {
            return self.flip(cx);
        }
        self.submit(cx, "build aside", ops, EndpointAnswer::Built);
    }

    pub(super) fn built(&mut self, cx: &mut Cx<'_, Self>, answer: Result<KernelDone, AskError>) {
        if self.kernel_answer(cx, answer).is_some() {
            self.flip(cx);
        }
    }

    pub(super) fn flip(&mut self, cx: &mut Cx<'_, Self>) {
        let Some(build) = &mut self.build else { return };
        // What is left waits for the kernel, not for a processor.
        build.permit = None;
        let ops = std::mem::take(&mut build.plan.flip);
        if ops.is_empty() {
            return self.map_addresses(cx);
        }
        self.submit(cx, "flip", ops, EndpointAnswer::Flipped);
    }

    pub(super) fn flipped(&mut self, cx: &mut Cx<'_, Self>, answer: Result<KernelDone, AskError>) {
        if self.kernel_answer(cx, answer).is_some() {
            self.map_addresses(cx);
        }
    }

    /// Hands steps to the kernel and remembers what they are, so that known follows them.
    pub(super) fn submit(
        &mut self,
        cx: &mut Cx<'_, Self>,
        step: &'static str,
        ops: Vec<KernelOp>,
        then: impl FnOnce(Result<KernelDone, AskError>) -> EndpointAnswer + 'static,
    ) {
        self.at_step(step);
        self.busy = true;
        if let Some(build) = &mut self.build {
            build.submitted.clone_from(&ops);
        }
        let reply = cx.expect("kernel", KERNEL_PATIENCE, step, then);
        self.peers.kernel.submit(KernelJob::new(ops), reply);
    }

    /// Notes what a job did. `None` if the build ends here.
    fn kernel_answer(
        &mut self,
        cx: &mut Cx<'_, Self>,
        answer: Result<KernelDone, AskError>,
    ) -> Option<KernelDone> {
        self.busy = false;
        self.worked_at = cx.now();
        let ops = self.build.as_mut().map(|build| std::mem::take(&mut build.submitted));
        let ops = ops.unwrap_or_default();
        let build = self.build.as_ref().filter(|build| build.policy.is_some());
        let rows = build.map(|build| Arc::clone(&build.plan.policy)).or_else(|| self.kept.clone());
        // Its record may have changed while it was being written.
        let outdated = ops.iter().any(
            |op| matches!(op, KernelOp::PutEndpoint { row, .. } if *row != self.kernel_record()),
        );
        self.refused = answer.as_ref().is_ok_and(|done| done.failed.is_some());
        let done = match answer {
            Ok(done) => done,
            Err(error) => {
                // Nobody can say how far it came: read before the next build.
                (self.known, self.believed, self.kept) = (None, None, None);
                if self.teardown.is_none() {
                    self.fail(cx, &format!("the kernel did not answer: {error}"));
                }
                return None;
            }
        };
        if let Some(known) = &mut self.known {
            known.all_done(&ops, done.outcomes.len(), rows.as_ref());
            known.recorded &= !outdated;
        }
        if self.teardown.is_some() {
            return None;
        }
        if let Some((_, error)) = &done.failed {
            self.fail(cx, &error.to_string());
            return None;
        }
        self.build.is_some().then_some(done)
    }

    /// What there is to do.
    pub(super) fn plan(&self) -> Option<Plan> {
        let build = self.build.as_ref()?;
        let known = self.known.as_ref()?;
        let rows = match &build.policy {
            Some(policy) => Arc::clone(&policy.rows),
            None => self.kept.clone().or(known.policy.clone()).filter(|_| build.keeps)?,
        };
        Some(plan(&self.desired(rows, known), known, build.changed.as_ref(), build.trigger.level))
    }
}
