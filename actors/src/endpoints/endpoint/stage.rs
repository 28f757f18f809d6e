//! The stages of a build; what comes after which says `build/advance.rs`.

use super::{plan::EndpointPlan, target::TargetPolicy};
use crate::{endpoints::build_queue::Permit, policy::rules::Changed};

/// What comes next in a build.
pub(super) enum BuildStage {
    /// The state file is to say what is so. The policy may have come with the trigger.
    Save(Option<Changed>),
    /// The policy is to be known.
    Policy(Option<Changed>),
    /// The policy stands.
    Compare(TargetPolicy),
    /// The permit is there.
    Permitted(TargetPolicy, Permit),
    /// What the kernel holds is to be known.
    Read(TargetPolicy, Permit),
    /// The new generation is to be built aside.
    Aside(TargetPolicy, Permit),
    /// The new generation is to serve.
    Flip(TargetPolicy, EndpointPlan),
    /// Others are to know its addresses.
    Map(TargetPolicy),
    /// All is done.
    Done(TargetPolicy),
}

impl BuildStage {
    /// Whether others see what comes now.
    pub(super) fn is_seen(&self) -> bool {
        matches!(self, Self::Flip(..) | Self::Map(_) | Self::Done(_))
    }
}
