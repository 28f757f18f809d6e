//! The nodes of the cluster: where each of them is, so that policies tell them from the world.
//!
//! ```text
//!   store ─► watcher (nodes/v1) ─┬─► nodes ─┬─► ipcache
//!   sources of CiliumNodes ──────┘          ├─► routes, which lead to them
//!                                           └─► session, where this node announces itself
//! ```
//!
//! Identities of nodes are reserved, policies know them always: an address is mapped in one step.
//! Where rules select nodes by labels, what a node is labelled with has a number of this node's own:
//! policies learn it first.
//! Where nobody defined CiliumNodes, the cluster's Nodes say where nodes are.
//! What an earlier run mapped stays until the cluster has listed its nodes.

mod actor;
mod announced;
mod answers;
mod cidr;
mod entry;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod inherited;
mod introduce;
mod messages;
mod neighbours;
mod numbers;
mod objects;
mod reported;
#[cfg(test)]
mod tests;

pub use actor::{RemoteNodes, RemoteNodesPeers, RemoteNodesSettings};
pub use entry::{NodeAddress, NodeEntry, NodeError, Seat};
pub(crate) use inherited::{inherited, inherited_entries, inherited_identities};
pub use messages::{RemoteNodesList, RemoteNodesMsg, RemoteNodesSource, RemoteNodesView};
