//! What an endpoint is at: at most one thing at a time.
//!
//! ```text
//! Idle ──► Building ──► Idle          build/advance.rs
//!   │          │
//!   └──────────┴──► TearingDown ──► Gone      teardown.rs
//! ```
//!
//! A build and a teardown are held here only while one answer to them is out. Whoever takes them up
//! with that answer has them by value until it waits for the next. An identity may be on its way
//! beside a build: it is not a phase.

use std::mem;

use super::{
    CreateError, messages::Creator, plan::EndpointPlan, stage::BuildStage, target::TargetPolicy,
    trigger::Trigger,
};
use crate::{
    endpoints::build_queue::Permit,
    host::{Reply, Time},
    ports::KernelOp,
};

/// What an endpoint is at.
#[derive(Default)]
pub(super) enum EndpointPhase {
    /// Nothing, as far as it itself goes.
    #[default]
    Idle,
    /// A build waits for an answer.
    Building(Build, BuildWait),
    /// Its teardown waits for an answer.
    TearingDown(TeardownWait, Teardown),
    /// Nothing is left of it.
    Gone,
}

impl EndpointPhase {
    /// Whether it is on its way out, or gone.
    pub(super) fn is_going(&self) -> bool {
        matches!(self, Self::TearingDown(..) | Self::Gone)
    }

    /// Whether a build is under way.
    pub(super) fn is_building(&self) -> bool {
        matches!(self, Self::Building(..))
    }

    /// Whether nothing is under way.
    pub(super) fn is_idle(&self) -> bool {
        matches!(self, Self::Idle)
    }

    /// What it waits for, for people.
    pub(super) fn step(&self) -> Option<&'static str> {
        match self {
            Self::Building(build, _) => Some(build.step),
            _ => None,
        }
    }

    /// Takes the build that waits for such an answer, with what `pick` takes of what it waits for.
    /// None if no build does: the answer is late.
    pub(super) fn take_build<T>(
        &mut self,
        pick: impl FnOnce(BuildWait) -> Result<T, BuildWait>,
    ) -> Option<(Build, T)> {
        match mem::take(self) {
            Self::Building(build, awaited) => match pick(awaited) {
                Ok(picked) => Some((build, picked)),
                Err(awaited) => {
                    *self = Self::Building(build, awaited);
                    None
                }
            },
            other => {
                *self = other;
                None
            }
        }
    }

    /// The same for a teardown.
    pub(super) fn take_teardown<T>(
        &mut self,
        pick: impl FnOnce(TeardownWait) -> Result<T, TeardownWait>,
    ) -> Option<(Teardown, T)> {
        match mem::take(self) {
            Self::TearingDown(awaited, down) => match pick(awaited) {
                Ok(picked) => Some((down, picked)),
                Err(awaited) => {
                    *self = Self::TearingDown(awaited, down);
                    None
                }
            },
            other => {
                *self = other;
                None
            }
        }
    }
}

/// A build under way. What it has come to stands in its stage, or in what it waits for.
pub(super) struct Build {
    pub(super) trigger: Trigger,
    /// When it began.
    pub(super) since: Time,
    /// What it waits for, or waited for last, for people.
    pub(super) step: &'static str,
}

/// What a build waits for.
pub(super) enum BuildWait {
    /// The policy.
    Policy,
    /// A permit.
    Permit(TargetPolicy),
    /// What the kernel holds, all of it.
    Snapshot(TargetPolicy, Permit),
    /// The policy map that is in use.
    PolicyMap(TargetPolicy, Permit),
    /// What is built aside.
    Aside(TargetPolicy, Permit, EndpointPlan),
    /// The state file, before that may come.
    StateFile(BuildStage),
    /// The flip.
    Flip(TargetPolicy, EndpointPlan),
    /// The rows of the ipcache.
    Ipcache(TargetPolicy),
}

impl BuildWait {
    /// Its name for people.
    pub(super) fn step(&self) -> &'static str {
        match self {
            Self::Policy => "policy",
            Self::Permit(_) => "permit",
            Self::Snapshot(..) => "read the kernel",
            Self::PolicyMap(..) => "read the policy map",
            Self::Aside(..) => "build aside",
            Self::StateFile(_) => "state file",
            Self::Flip(..) => "flip",
            Self::Ipcache(_) => "ipcache",
        }
    }
}

/// An endpoint on its way out.
pub(super) struct Teardown {
    pub(super) replies: Vec<Reply<u32>>,
    /// Who desired it made, and why it was not.
    pub(super) creator: Option<(Creator, CreateError)>,
    /// Steps that failed.
    pub(super) failed: Vec<KernelOp>,
    /// Whether its state directory is still there.
    pub(super) on_disk: bool,
    /// Links may have been made behind the step that removes them.
    pub(super) linked_late: bool,
    pub(super) rounds: u32,
}

/// What a teardown waits for.
pub(super) enum TeardownWait {
    /// The state file, which the disk is at.
    StateFile,
    /// These steps in the kernel.
    Kernel(Vec<KernelOp>),
    /// The ipcache.
    Ipcache,
    /// The disk.
    Directory,
    /// The time of the next round.
    NextRound,
    /// Links that are still being made.
    Links,
}
