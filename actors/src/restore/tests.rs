//! Restarts, on a whole node in memory.

mod crash;
mod lost;
mod unchanged;
