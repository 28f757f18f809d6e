//! Endpoints: one actor for each, who supervises them, and what they need to be built.

pub mod build_queue;
pub mod endpoint;
pub mod ipam;
pub mod supervisor;
pub mod workloads;
