//! The other clusters of a mesh: each has a store, of which this node reads who is where.
//!
//! ```text
//!   configurations ─► clustermesh ─► clustermesh b ─► watchers of b's store ─┬─► addresses
//!                          │               │                                 └─► nodes
//!                          │               └─► services
//!                          └─ which clusters there are ─► addresses, nodes, services
//! ```
//!
//! What a cluster says goes to the owners of addresses, nodes and services, who keep it by cluster, once
//! they have heard that there is such a cluster. It widens
//! what is known and is waited for by nobody: while a cluster cannot be reached, what it said before
//! stays in force, over a restart, too. It goes once the cluster does not say it any more, or is not
//! configured any more.

mod actor;
mod answers;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod messages;
mod remote;
#[cfg(test)]
mod tests;
mod view;

pub use actor::{Mesh, MeshPeers, MeshSettings};
pub use messages::MeshMsg;
pub use view::RemoteView;
