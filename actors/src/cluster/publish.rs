//! What this node says of itself in the cluster: annotations and the condition of its Node, the
//! taint that goes with it, its CiliumNode, and a CiliumEndpoint for each of its pods.
//!
//! One actor compares what is there, which sources of the cluster tell it, with what is to be
//! there, and writes the difference: nothing after a restart in which nothing changed. A write that
//! fails is tried again for ever, with growing pauses that everyone can see; nothing else on this
//! node waits for it.

mod actor;
mod answers;
mod difference;
mod endpoint;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod item;
mod known;
mod messages;
mod node;
mod settings;
#[cfg(test)]
mod tests;

pub use actor::{Publisher, PublisherPeers, PublisherView};
pub use messages::{PublisherMsg, Unpublished};
pub use node::new_cilium_node;
pub(crate) use node::{is_up_since, network_condition, says_up};
pub use settings::{InNode, PublishSettings};
