//! Prefixes for nodes, of several pools: each node asks for addresses of each, and gets prefixes until it has
//! as many.
//!
//! ```text
//!  a CiliumNode asks for more than it has ─▶ free ones drawn ─▶ recorded in the Lease ─▶ written into the
//!  CiliumNode, in the version that was seen before the Lease was
//! ```
//!
//! What a node has stays until its agent takes it out of its CiliumNode; then it is free, and given again
//! as late as can be. So a write that is under way for long must not bring back what was free meanwhile:
//! each one is for a version from before the Lease was confirmed, and an agent that takes something out
//! makes another version.

mod actor;
mod answers;
mod creation;
mod demand;
mod known;
mod plan;

pub(super) use actor::PodPrefixAllocator;
pub use creation::{NewPodPool, NewPodPoolError};
