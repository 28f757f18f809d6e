//! Everything that decides: the actors of a node agent, and the runtime they live in.
//!
//! Nothing here does I/O, starts a thread or reads a wall clock. What the actors ask of the world
//! goes through [`ports`]; the agent implements them for real, the testbed simulates them.

pub mod cluster;
pub mod endpoints;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
pub mod host;
pub mod model;
pub mod mutants;
pub mod node;
pub mod node_supervisor;
pub mod operator;
pub mod policy;
pub mod ports;
pub mod restore;
pub mod services;
pub mod state_directory;
#[cfg(any(test, feature = "simulation"))]
pub mod testing;

/// The code of that page is compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../docs/writing-an-actor.md")]
mod writing_an_actor {}
