//! The operator of a cluster: it leads by a Lease, gives prefixes to nodes, marks Nodes by their agents, and
//! removes what nodes and pods left behind, of the API server and of the kvstore.
//!
//! It is one process among several, and any of them may die or stall at any moment. Three rules keep
//! them from doing harm:
//!
//! - Who leads holds the Lease `cilium-operator-resource-lock`, as Cilium's operator does: one of all of
//!   them works. Every change of the Lease is made to the version that was read.
//! - A prefix is written into the Lease before it is written into a CiliumNode. So who takes the Lease
//!   over knows what the one before may still write, and gives none of it to another node.
//! - Objects are listed only after the Lease was taken. What is removed is removed in the version that
//!   was seen, right after the Lease was confirmed, and not before somebody asked again for the pod or
//!   the Node that it belongs to.
//!
//! An operator that loses the Lease, or of which an actor crashed, ends. The next one begins anew.

mod collector;
mod ending;
mod follower;
mod leadership;
mod marks;
mod news;
mod pod_pools;
mod prefixes;
mod resources;
mod store_collector;
mod supervisor;
#[cfg(test)]
mod tests;

pub use collector::{CollectorSettings, CollectorView};
pub use ending::OperatorEnd;
pub use leadership::{LeadershipSettings, LeadershipView};
pub use marks::{MarkSettings, MarksView, PodLabels, PodLabelsError};
pub use pod_pools::{NewPodPool, NewPodPoolError};
pub use prefixes::{ClusterPools, PoolError, PoolRange, PrefixesView};
pub use store_collector::StoreCollectorView;
pub use supervisor::{OperatorQuestions, OperatorSettings, OperatorSupervisor, PrefixSource};
