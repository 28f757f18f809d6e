//! Restarts, on a whole node in memory.

mod crash;
mod evidence;
mod lost;
mod unchanged;
