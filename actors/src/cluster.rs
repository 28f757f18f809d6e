//! The cluster: what API server, kvstore and other clusters report, and what is published to them.

pub mod addresses;
pub mod allocator;
pub mod api_server;
pub mod clustermesh;
pub mod crd;
mod dice;
pub mod kvstore;
pub mod nodes;
pub mod publish;
pub mod sources;
