//! Endpoints: one actor for each, who supervises them, and what they need to be built.

mod actor_name;
pub mod build_queue;
pub mod endpoint;
pub mod ipam;
pub mod supervisor;
pub mod workloads;

pub use actor_name::{endpoint_called, pod_called};
