//! What the supervisor of endpoints saw of the kernel, for who audits it and for who follows the container runtime.

use std::sync::Arc;

use serde::Serialize;

use crate::{endpoints::endpoint::EndpointView, host::Time, ports::KernelSnapshot};

/// A look at the kernel.
pub struct KernelLook {
    /// The endpoints as they were before.
    pub before: Vec<Arc<EndpointView>>,
    /// What the kernel showed.
    pub kernel: Arc<KernelSnapshot>,
}

/// An endpoint whose container and interface are gone.
#[derive(Clone, Copy)]
pub(super) struct Unclaimed {
    /// First seen then.
    pub(super) since: Time,
    /// Last seen then.
    pub(super) seen: Time,
}

/// What was found of endpoints whose containers are gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Abandoned {
    /// Their interfaces live, so they stay.
    pub living: usize,
    /// Their interfaces are gone; a DEL is waited for.
    pub waiting: usize,
    /// They were removed just now.
    pub removed: usize,
}
