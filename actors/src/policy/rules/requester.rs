//! Who waits for a policy, and whether they may keep the one that the kernel holds.

use std::sync::Arc;

use super::EndpointPolicy;
use crate::host::Reply;

/// Who asks for a policy.
pub(super) enum PolicyRequester {
    /// An endpoint whose policy the kernel holds.
    Keeper(Reply<Option<Arc<EndpointPolicy>>>),
    /// Anybody else.
    Other(Reply<Arc<EndpointPolicy>>),
}

impl PolicyRequester {
    pub(super) fn answer(self, policy: Arc<EndpointPolicy>) {
        match self {
            Self::Keeper(reply) => reply.send(Some(policy)),
            Self::Other(reply) => reply.send(policy),
        }
    }
}
