//! Restarts, on a whole node in memory.

mod crash;
mod evidence;
mod host;
mod lost;
mod unchanged;
