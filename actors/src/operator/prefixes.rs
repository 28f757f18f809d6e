//! Prefixes for nodes, of pools of the cluster: the owner of who has which.
//!
//! ```text
//!  a CiliumNode lacks one ─▶ free one drawn ─▶ recorded in the Lease ─▶ written into the CiliumNode
//! ```
//!
//! What a node has stays: a prefix is never taken away or changed. Where two nodes have the same one, both
//! are told, in their CiliumNodes, and people decide.

mod actor;
mod answers;
mod grants;
mod pool;
mod seen_node;
mod view;
mod writer;

pub(super) use actor::PrefixAllocator;
pub(super) use grants::{Grant, Grants};
pub use pool::{ClusterPools, PoolError, PoolRange};
pub(super) use pool::{Family, Occupied, overlap, troubles_of_shared};
pub(super) use seen_node::SeenNode;
pub use view::PrefixesView;
pub(super) use writer::{PrefixWriter, PrefixesPeers, WriteAnswer, unreadable};
