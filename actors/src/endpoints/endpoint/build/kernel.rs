//! The kernel's part of a build: what is read, what is built aside, the flip.

use std::sync::Arc;

use super::{
    super::{
        Endpoint, EndpointState,
        answers::EndpointAnswer,
        phase::{Build, BuildWait},
        plan::{EndpointPlan, plan},
        realised::RealisedEndpoint,
        stage::BuildStage,
        target::TargetPolicy,
        trigger::Trigger,
    },
    KERNEL_PATIENCE,
};
use crate::{
    endpoints::build_queue::Permit,
    host::{AskError, Cx},
    model::PolicyRows,
    ports::{KernelDone, KernelJob, KernelOp, KernelOutcome, KernelSnapshot, OwnedRows},
};

impl Endpoint {
    /// It is being changed from now on.
    pub(super) fn regenerating(&mut self, cx: &Cx<'_, Self>, build: &Build) {
        let reason = &build.trigger.reason;
        self.become_state(cx, EndpointState::Regenerating, reason);
        self.note(cx, "OK", &format!("Regenerating endpoint: {reason}"));
    }

    /// What there is to do.
    pub(super) fn plan(&self, trigger: &Trigger, target: &TargetPolicy) -> Option<EndpointPlan> {
        let known = self.datapath.known.as_ref()?;
        let rows = match target.policy() {
            Some(policy) => Arc::clone(&policy.rows),
            None => self.datapath.retained.clone().or(known.policy.clone())?,
        };
        Some(plan(&self.desired(rows, known), known, target.changed(), trigger.level))
    }

    /// Has all read that the kernel holds.
    pub(super) fn read_all(
        &mut self,
        cx: &mut Cx<'_, Self>,
        build: Build,
        target: TargetPolicy,
        permit: Permit,
    ) {
        let ops = vec![KernelOp::Snapshot];
        self.submit(cx, build, BuildWait::Snapshot(target, permit), ops, EndpointAnswer::Read);
    }

    /// Has the policy map read that is in use.
    pub(super) fn read_policy(
        &mut self,
        cx: &mut Cx<'_, Self>,
        build: Build,
        target: TargetPolicy,
        permit: Permit,
        slot: u32,
    ) {
        let ops = vec![KernelOp::ReadPolicy { slot }];
        self.submit(cx, build, BuildWait::PolicyMap(target, permit), ops, EndpointAnswer::Read);
    }

    pub(in super::super) fn read(
        &mut self,
        cx: &mut Cx<'_, Self>,
        answer: Result<KernelDone, AskError>,
    ) {
        let taken = self.phase.take_build(|awaited| match awaited {
            BuildWait::Snapshot(target, permit) | BuildWait::PolicyMap(target, permit) => {
                Ok((target, permit))
            }
            other => Err(other),
        });
        let done = self.note_answer(cx, &[], None, answer);
        let Some((build, (target, permit))) = taken else { return };
        let stage = match done.map(|done| done.outcomes.into_iter().next()) {
            Ok(Some(KernelOutcome::Snapshot(snapshot))) => {
                self.note_snapshot(&snapshot);
                BuildStage::Read(target, permit)
            }
            Ok(Some(KernelOutcome::Policy(rows))) => {
                self.note_policy_map(rows);
                BuildStage::Aside(target, permit)
            }
            Ok(_) => BuildStage::Aside(target, permit),
            Err(error) => return self.fail_after(cx, build, &target, &error),
        };
        self.advance(cx, build, stage);
    }

    fn note_snapshot(&mut self, snapshot: &KernelSnapshot) {
        let rows = OwnedRows::of(snapshot);
        let known = RealisedEndpoint::seen(snapshot, &rows, self.id, &self.record.spec);
        self.compare_rows(&known, snapshot);
        self.datapath.known = Some(known);
    }

    fn note_policy_map(&mut self, rows: Option<PolicyRows>) {
        self.compare_policy(rows.as_ref());
        if let Some(known) = &mut self.datapath.known {
            match rows {
                Some(rows) => known.policy = Some(Arc::new(rows)),
                // The row names a slot without a map: every packet is dropped. Build anew.
                None => known.config = None,
            }
        }
    }

    /// Has the new generation built aside.
    pub(super) fn build_aside(
        &mut self,
        cx: &mut Cx<'_, Self>,
        build: Build,
        target: TargetPolicy,
        permit: Permit,
        plan: EndpointPlan,
    ) {
        let ops = plan.aside.clone();
        self.submit(cx, build, BuildWait::Aside(target, permit, plan), ops, EndpointAnswer::Built);
    }

    pub(in super::super) fn built(
        &mut self,
        cx: &mut Cx<'_, Self>,
        answer: Result<KernelDone, AskError>,
    ) {
        let taken = self.phase.take_build(|awaited| match awaited {
            BuildWait::Aside(target, permit, plan) => Ok((target, permit, plan)),
            other => Err(other),
        });
        let Some((build, (target, permit, plan))) = taken else {
            return drop(self.note_answer(cx, &[], None, answer));
        };
        let rows = self.led_to(&target, &plan);
        match self.note_answer(cx, &plan.aside, rows.as_ref(), answer) {
            Ok(_) => {
                // What is left waits for the kernel, not for a processor.
                drop(permit);
                self.advance(cx, build, BuildStage::Flip(target, plan));
            }
            Err(error) => self.fail_after(cx, build, &target, &error),
        }
    }

    /// Has the new generation serve.
    pub(super) fn flip(
        &mut self,
        cx: &mut Cx<'_, Self>,
        build: Build,
        target: TargetPolicy,
        plan: EndpointPlan,
    ) {
        let ops = plan.flip.clone();
        self.submit(cx, build, BuildWait::Flip(target, plan), ops, EndpointAnswer::Flipped);
    }

    pub(in super::super) fn flipped(
        &mut self,
        cx: &mut Cx<'_, Self>,
        answer: Result<KernelDone, AskError>,
    ) {
        let taken = self.phase.take_build(|awaited| match awaited {
            BuildWait::Flip(target, plan) => Ok((target, plan)),
            other => Err(other),
        });
        let Some((build, (target, plan))) = taken else {
            return drop(self.note_answer(cx, &[], None, answer));
        };
        let rows = self.led_to(&target, &plan);
        match self.note_answer(cx, &plan.flip, rows.as_ref(), answer) {
            Ok(_) => self.advance(cx, build, BuildStage::Map(target)),
            Err(error) => self.fail_after(cx, build, &target, &error),
        }
    }

    /// The rows of the policy map to which a plan's steps lead.
    fn led_to(&self, target: &TargetPolicy, plan: &EndpointPlan) -> Option<Arc<PolicyRows>> {
        match target.policy() {
            Some(_) => Some(Arc::clone(&plan.policy)),
            None => self.datapath.retained.clone(),
        }
    }

    /// Hands steps to the kernel.
    fn submit(
        &mut self,
        cx: &mut Cx<'_, Self>,
        build: Build,
        awaited: BuildWait,
        ops: Vec<KernelOp>,
        then: impl FnOnce(Result<KernelDone, AskError>) -> EndpointAnswer + 'static,
    ) {
        self.datapath.busy = true;
        let reply = cx.expect("kernel", KERNEL_PATIENCE, awaited.step(), then);
        self.peers.kernel.submit(KernelJob::new(ops), reply);
        self.wait(build, awaited);
    }

    /// Notes what a job did, so that what is known follows its steps. A late answer comes without
    /// them: what is known goes with the endpoint.
    fn note_answer(
        &mut self,
        cx: &Cx<'_, Self>,
        ops: &[KernelOp],
        rows: Option<&Arc<PolicyRows>>,
        answer: Result<KernelDone, AskError>,
    ) -> Result<KernelDone, String> {
        self.datapath.busy = false;
        self.datapath.worked_at = cx.now();
        // Its record may have changed while it was being written.
        let outdated = ops.iter().any(
            |op| matches!(op, KernelOp::PutEndpoint { row, .. } if *row != self.kernel_record()),
        );
        self.results.refused = answer.as_ref().is_ok_and(|done| done.failed.is_some());
        let done = match answer {
            Ok(done) => done,
            Err(error) => {
                // Nobody can say how far it came: read before the next build.
                let datapath = &mut self.datapath;
                (datapath.known, datapath.believed, datapath.retained) = (None, None, None);
                return Err(format!("the kernel did not answer: {error}"));
            }
        };
        if let Some(known) = &mut self.datapath.known {
            known.all_done(ops, done.outcomes.len(), rows);
            known.record.is_right &= !outdated;
        }
        match &done.failed {
            Some((_, error)) => Err(error.to_string()),
            None => Ok(done),
        }
    }
}
