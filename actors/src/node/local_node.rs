//! The node itself: its own addresses, which are the host's, and its router address.

mod actor;
mod answers;
mod messages;
mod pod_cidrs;
mod sweep;
#[cfg(test)]
mod tests;
mod wanted;

pub use actor::{Node, NodeSubscribers};
pub use messages::{NodeMsg, NodeStatus};
pub use pod_cidrs::{IpamMode, PodCidrError, PodCidrs};
pub use wanted::NodeSettings;
