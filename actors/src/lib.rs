//! Everything that decides: the actors of a node agent, and the runtime they live in.
//!
//! Nothing here does I/O, starts a thread or reads a wall clock. What the actors ask of the world
//! goes through [`ports`]; the agent implements them for real, the testbed simulates them.

pub mod addresses;
pub mod allocator;
pub mod auditor;
pub mod build_queue;
pub mod cluster;
pub mod clustermesh;
pub mod colony;
pub mod conntrack;
pub mod crd;
pub mod devices;
mod dice;
pub mod drift;
pub mod endpoint;
pub mod endpoints;
mod field;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
pub mod health_checks;
pub mod host;
pub mod identity;
pub mod invariants;
pub mod ipam;
pub mod ipcache;
pub mod kvstore;
pub mod model;
pub mod mutants;
pub mod node;
pub mod nodes;
pub mod policy;
pub mod ports;
pub mod publish;
mod ranges;
mod repairs;
pub mod restore;
pub mod routes;
pub mod services;
pub mod sockets;
pub mod sources;
pub mod state;
#[cfg(any(test, feature = "simulation"))]
pub mod testing;
pub mod workloads;

/// The code of that page is compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../docs/writing-an-actor.md")]
mod writing_an_actor {}
