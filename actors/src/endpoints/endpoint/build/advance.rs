//! A build from its first stage to its last. [`Endpoint::advance`] is the only place that says what
//! comes next.
//!
//! ```text
//! Save ─► Policy ─► Compare ─┬─► Permitted ─► Read ─► Aside ─► Flip ─► Map ─► Done
//!                            │                ▲  │              ▲       ▲
//!                            │     then again └──┘              │       │
//!                            ├─ rows that change in place ──────┘       │
//!                            └─ nothing to do ──────────────────────────┘
//! ```
//!
//! - Save: the state file is written, unless it says all already. That of a new endpoint is written beside
//!   Aside and waited for before anybody can see the endpoint: until then a restart may as well not find it. Any
//!   other has one already, which would be older than what the kernel is told.
//! - Policy: the policy is known at once where it came with the trigger, or where the one that the
//!   kernel holds is kept. Else it is asked for.
//! - Compare: where all that the kernel holds is known, what there is to do is too. A permit is
//!   waited for only where something is to be read, or built aside.
//! - Read: what the kernel holds is read as far as it is not known: all of it, then the policy map.
//! - Aside: the new generation is built where no packet sees it. After that the permit goes back.
//! - Flip: the new generation serves.
//! - Map: others learn which identity its addresses have, last of all, unless they know.
//!
//! What goes wrong at any stage ends the build (`outcome.rs`), and a deletion does (`teardown.rs`).
//! A build that is not at a stage waits for one answer: [`BuildWait`]. The answers (`answers.rs`,
//! `kernel.rs`) make the next stage of it and call `advance`. An answer that no build waits for is
//! late: its build was ended by a deletion.

use super::super::{
    Endpoint, EndpointState,
    phase::{Build, BuildWait, EndpointPhase},
    plan::EndpointPlan,
    realised::RealisedEndpoint,
    stage::BuildStage,
    target::TargetPolicy,
};
use crate::host::Cx;

impl Endpoint {
    /// Takes a build on from that stage, until it has to wait for an answer or is done.
    pub(in super::super) fn advance(
        &mut self,
        cx: &mut Cx<'_, Self>,
        build: Build,
        mut stage: BuildStage,
    ) {
        loop {
            stage = match stage {
                BuildStage::Save(brought) if self.is_written() || self.is_new() => {
                    BuildStage::Policy(brought)
                }
                BuildStage::Save(brought) => {
                    self.save(cx);
                    return self.wait(build, BuildWait::StateFile(BuildStage::Policy(brought)));
                }
                // A restart has to find what others see of it.
                next if next.is_seen() && self.saving.is_under_way => {
                    return self.wait(build, BuildWait::StateFile(next));
                }
                next if next.is_seen() && self.saving.error.is_some() => match self.save_failed(cx)
                {
                    Some(error) => return self.fail(cx, build, &error),
                    None => next,
                },

                BuildStage::Policy(_) if self.record.unlabelled && self.may_keep() => {
                    BuildStage::Compare(TargetPolicy::Retained)
                }
                BuildStage::Policy(Some(changed)) => {
                    BuildStage::Compare(TargetPolicy::Brought(changed))
                }
                BuildStage::Policy(None) => return self.ask_policy(cx, build),

                BuildStage::Compare(target) => match self.compare(&build, &target) {
                    Some(plan) if plan.is_empty() => {
                        self.become_state(cx, EndpointState::Regenerating, "compared");
                        BuildStage::Map(target)
                    }
                    Some(plan) if plan.aside.is_empty() => {
                        self.regenerating(cx, &build);
                        BuildStage::Flip(target, plan)
                    }
                    _ => return self.ask_permit(cx, build, target),
                },

                BuildStage::Permitted(target, permit) => {
                    self.regenerating(cx, &build);
                    self.publish(cx);
                    BuildStage::Read(target, permit)
                }

                BuildStage::Read(target, permit) => match &self.datapath.known {
                    None => return self.read_all(cx, build, target, permit),
                    Some(RealisedEndpoint { config: Some(config), policy: None, .. }) => {
                        let slot = config.policy_slot;
                        return self.read_policy(cx, build, target, permit, slot);
                    }
                    Some(_) => BuildStage::Aside(target, permit),
                },

                BuildStage::Aside(target, permit) => match self.plan(&build.trigger, &target) {
                    None => return self.nothing_known(cx, build, &target),
                    // What is left waits for the kernel, not for a processor: the permit goes back.
                    Some(plan) if plan.aside.is_empty() => BuildStage::Flip(target, plan),
                    Some(plan) => {
                        self.build_aside(cx, build, target, permit, plan);
                        if self.is_new() && !self.is_written() {
                            self.save(cx);
                        }
                        return;
                    }
                },

                BuildStage::Flip(target, plan) if plan.flip.is_empty() => BuildStage::Map(target),
                BuildStage::Flip(target, plan) => return self.flip(cx, build, target, plan),

                BuildStage::Map(target) => match self.unmapped_entries() {
                    None => BuildStage::Done(target),
                    Some(entries) => return self.map_addresses(cx, build, target, entries),
                },

                BuildStage::Done(target) => return self.finish(cx, build, &target),
            };
        }
    }

    /// Leaves a build until that is answered.
    pub(super) fn wait(&mut self, build: Build, awaited: BuildWait) {
        let build = Build { step: awaited.step(), ..build };
        self.phase = EndpointPhase::Building(build, awaited);
    }

    /// Whether the state file need not be written. What its labels are to be is written with the identity
    /// that goes with them; a file that lacks them would be believed.
    fn is_written(&self) -> bool {
        self.record.on_disk
            || self.naming.stale
            || self.record.unlabelled
            || self.saving.is_up_to_date()
    }

    /// What there is to do, if all that the kernel holds is known.
    fn compare(&mut self, build: &Build, target: &TargetPolicy) -> Option<EndpointPlan> {
        if let Some(policy) = target.policy() {
            self.policy.heard = policy.revision;
        }
        let is_read = self.datapath.known.as_ref().is_some_and(|known| known.policy.is_some());
        is_read.then(|| self.plan(&build.trigger, target)).flatten()
    }
}
