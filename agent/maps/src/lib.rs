//! The datapath's objects as the kernel keeps them: the system call, pins, maps with typed rows, and rings.
//!
//! What an agent pinned can be read without one, by [`Dump`] and [`Rings`]. Which rows there are to be,
//! programs and links are left to the agent's datapath.

mod attr;
pub mod cpus;
pub mod crash;
mod dump;
pub mod error;
pub mod pins;
pub mod policies;
pub mod programs;
pub mod resizing;
mod rings;
pub mod rows;
pub mod services;
pub mod sys;
pub mod table;
pub mod tally;

pub use dump::{Client, Connection, Dump, MaglevShares, Peer, ServedClient, Translation};
pub use error::DatapathError;
pub use rings::{Event, Rings};
