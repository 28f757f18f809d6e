//! The policy that a build is of.

use std::sync::Arc;

use crate::policy::rules::{Changed, EndpointPolicy};

/// The policy that a build is of.
pub(super) enum TargetPolicy {
    /// One that came with what triggered the build, and the change to it.
    Brought(Changed),
    /// One that was asked for.
    Resolved(Arc<EndpointPolicy>),
    /// The one that the kernel holds: nobody knows another.
    Retained,
}

impl TargetPolicy {
    /// The policy, unless it is the kernel's.
    pub(super) fn policy(&self) -> Option<&Arc<EndpointPolicy>> {
        match self {
            Self::Brought(changed) => Some(&changed.policy),
            Self::Resolved(policy) => Some(policy),
            Self::Retained => None,
        }
    }

    /// The change that it came with.
    pub(super) fn changed(&self) -> Option<&Changed> {
        match self {
            Self::Brought(changed) => Some(changed),
            Self::Resolved(_) | Self::Retained => None,
        }
    }
}
