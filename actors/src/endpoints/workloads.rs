//! Pods and namespaces as the cluster describes them: CNI carries only names, labels
//! and names of ports come from here. How this node is labelled comes from here as well.

mod actor;
mod answers;
mod error;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod messages;
mod object;
mod pools;
mod ports;
mod reported;
#[cfg(test)]
mod tests;

pub use actor::{Workloads, WorkloadsView};
pub use error::ObjectError;
pub use messages::{PodFacts, PoolsRequest, WorkloadsMsg, WorkloadsNews};
pub use pools::PodPoolNames;
pub(crate) use reported::is_given_by_the_cluster;
