//! The port for health checks of services: load balancers outside the node ask, and an actor sets
//! the answers.

use std::sync::Arc;

use serde::Serialize;

use crate::host::Reply;

/// What a load balancer outside is told of a service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HealthAnswer {
    /// The service, as `namespace/name`.
    pub service: Arc<str>,
    /// Pods of this node that take new connections.
    pub local_endpoints: usize,
}

/// Why a port cannot be listened on, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ListenError(pub String);

/// Ports of the node at which load balancers outside ask for services, by HTTP.
pub trait HealthListeners {
    /// Answers so at that port from now on; nothing ends it. Who listens there already goes on,
    /// and only the answer is another one.
    fn answer(
        &self,
        port: u16,
        answer: Option<HealthAnswer>,
        reply: Reply<Result<(), ListenError>>,
    );
}
