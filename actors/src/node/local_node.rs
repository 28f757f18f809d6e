//! The node itself: its own addresses, which are the host's, and its router address.

mod actor;
mod answers;
mod desired;
mod messages;
mod pod_cidrs;
mod sweep;
#[cfg(test)]
mod tests;

pub use actor::{Node, NodeSubscribers};
pub use desired::NodeSettings;
pub use messages::{NodeMsg, NodeStatus};
pub use pod_cidrs::{IpamMode, PodCidrError, PodCidrs};
