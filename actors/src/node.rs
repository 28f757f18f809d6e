//! The node itself: its addresses, devices, routes and connections, and the auditor of all.

pub mod auditor;
pub mod conntrack;
pub mod devices;
pub mod invariants;
pub mod local_node;
pub mod routes;
pub mod verification;
