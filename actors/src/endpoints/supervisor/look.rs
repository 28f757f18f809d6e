//! What the supervisor of endpoints saw of the kernel, for who audits it.

use std::sync::Arc;

use crate::{endpoints::endpoint::EndpointView, ports::KernelSnapshot};

/// A look at the kernel.
pub struct KernelLook {
    /// The endpoints as they were before.
    pub before: Vec<Arc<EndpointView>>,
    /// What the kernel showed.
    pub kernel: Arc<KernelSnapshot>,
}
