//! The cluster: what API server, kvstore and other clusters report, and what is published to them.

pub mod addresses;
pub mod allocator;
pub mod api_server;
pub(crate) mod backoff;
pub mod clustermesh;
pub mod container_runtime;
pub mod definitions;
mod dice;
pub mod health_endpoint;
pub mod kvstore;
pub mod origins;
pub mod own_prefixes;
pub mod publish;
pub mod reachability;
pub mod remote_nodes;
pub mod resources;
pub mod sharing;
pub mod sources;
pub mod subscriber;
