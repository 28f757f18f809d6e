//! Removes what is left over: CiliumEndpoints of pods that went, CiliumIdentities that nobody uses, and
//! CiliumNodes of Nodes that went.
//!
//! Age is told by own time since the object was first seen, or seen to change, by this operator: one that
//! has just begun to lead removes nothing that young. Before something goes, the Lease is confirmed, and
//! the server is asked for the pod or the Node that it belongs to.

mod actor;
mod answers;
mod leftovers;
mod view;

pub use actor::CollectorSettings;
pub(super) use actor::{Collector, CollectorPeers};
pub use view::CollectorView;
