//! Marks of Nodes by the agents that run there: the taint that keeps pods away from a node whose agent is
//! not ready, and the condition that says that the network is up.
//!
//! ```text
//!  an agent's pod is ready, and not to end     ─▶ taint removed, NetworkUnavailable=False
//!  pods are scheduled there, and none is ready ─▶ taint set, where that is asked for
//!  no pod of an agent                          ─▶ the Node is left as it is
//! ```
//!
//! Before each write the Lease is confirmed, and the server is asked for the pod once more. The agent removes
//! the taint and writes the condition itself as well. Each write names the version of the
//! Node that was seen: whoever is second is refused, looks again, and finds nothing to do. What somebody
//! undoes is done again after pauses that grow.

mod actor;
mod answers;
mod known;
mod pod_labels;
mod view;

pub(super) use actor::{MarksPeers, NodeMarker};
pub use known::MarkSettings;
pub use pod_labels::{PodLabels, PodLabelsError};
pub use view::MarksView;
