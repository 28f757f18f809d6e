//! The kinds of endpoints.

use serde::{Deserialize, Serialize};

/// What an endpoint stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EndpointKind {
    /// A container or a pod, behind an interface of its own.
    #[default]
    Pod,
    /// The node itself: what its own processes send and receive.
    Host,
    /// What other nodes probe of this one: behind an interface of its own, and the agent's.
    Health,
}
