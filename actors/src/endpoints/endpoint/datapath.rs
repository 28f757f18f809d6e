//! What the kernel holds of an endpoint, as far as that is known, and what is in its hands.

use std::sync::Arc;

use super::realised::RealisedEndpoint;
use crate::{
    host::{Reply, Time},
    model::{PolicyRows, drift::Drift},
    policy::rules::{InheritResult, Successors},
};

/// The kernel's side of an endpoint.
#[derive(Default)]
pub(super) struct Datapath {
    /// What the kernel holds; `None` until it is read.
    pub(super) known: Option<RealisedEndpoint>,
    /// What it was known to hold, where it is read anew to see what drifted.
    pub(super) believed: Option<RealisedEndpoint>,
    /// The policy that it keeps, where somebody else changed it in the kernel.
    pub(super) retained: Option<Arc<PolicyRows>>,
    /// What drifted, and the next build puts right.
    pub(super) drifted: Vec<Drift>,
    /// When the kernel last did something for it.
    pub(super) worked_at: Time,
    /// A job is in the kernel's hands: what is known of it may be behind. No build begins by itself
    /// then.
    pub(super) busy: bool,
    /// Links are being made in place of its filters, beside all else.
    pub(super) settling: bool,
    /// New prefixes that its policy of an earlier run is to know, once the kernel has answered.
    pub(super) legacy: Option<PendingInherit>,
}

/// Somebody asks for successors to be known.
pub(super) struct PendingInherit {
    pub(super) slot: u32,
    pub(super) successors: Arc<Successors>,
    pub(super) reply: Reply<InheritResult>,
}
