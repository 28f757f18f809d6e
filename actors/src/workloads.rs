//! Pods and namespaces as the cluster describes them: CNI carries only names, labels come from here.

mod actor;
mod book;
mod messages;
mod object;
#[cfg(test)]
mod tests;

pub use actor::{Workloads, WorkloadsView};
pub use messages::{Manifest, WorkloadsMsg};
pub use object::ObjectError;
