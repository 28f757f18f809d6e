//! The node itself: its own addresses, which are the host's, and its router address.

mod actor;
mod messages;
#[cfg(test)]
mod tests;
mod wanted;

pub use actor::Node;
pub use messages::{NodeMsg, NodeStatus};
pub use wanted::NodeSettings;
