//! The node and what surrounds it: kernel, disk and time in memory, the container runtime, an API server, a
//! key-value store, another cluster, other nodes, interfaces. Each file says what there is and what may
//! happen to it.

mod api_server;
pub(super) mod connections;
mod container_runtime;
mod devices;
mod host_endpoint;
pub(super) mod kvstore;
mod lifecycle;
mod machine;
mod manifests;
mod mesh;
pub mod node;
mod operator;
pub(super) mod other_nodes;
mod pod;
pub(super) mod remote_cluster;
mod requests;
mod runtime_news;
mod schedule;
mod services;
mod store_events;
