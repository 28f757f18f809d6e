//! Answers load balancers outside that ask a node whether it has pods of a service
//! (`healthCheckNodePort`): which port is whose, and that it is listened on.
//!
//! ```text
//!   services ─(ports, pods of this node)─► health checks ─► listeners
//! ```

mod actor;
mod answers;
mod messages;
#[cfg(test)]
mod tests;

pub use actor::HealthChecks;
pub use messages::{HealthChange, HealthCheck, HealthCheckView, HealthChecksMsg};
