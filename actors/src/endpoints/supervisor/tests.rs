//! The supervisor of endpoints, on a whole node in memory.

mod crash;
mod host;
mod probe;
mod requests;
mod sweep;
