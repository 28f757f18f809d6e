//! The supervisor of endpoints, on a whole node in memory.

mod crash;
mod requests;
mod sweep;
