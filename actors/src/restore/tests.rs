//! Restarts, on a whole node in memory.

mod crash;
mod evidence;
mod host;
mod idle_pairs;
mod lost;
mod masquerade;
mod unchanged;
