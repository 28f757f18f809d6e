//! The simulator: whole lifetimes of a node, by the thousand, in virtual time.
//!
//! The actors are those of production. Kernel and disk are in memory and do one step at a time, in
//! an order that follows from a seed; a [history](action) says what happens to the node, and an
//! `oracle` looks at what every step makes of packets.

pub mod action;
mod around;
mod calls;
mod cluster;
mod command;
mod datapath;
pub mod draw;
mod drift;
mod far;
mod flight;
mod guard;
mod harm;
mod members;
pub mod model;
pub mod node;
mod oracle;
mod pace;
mod peers;
mod pod;
mod quarantine;
mod rest;
pub mod scenarios;
mod served;
pub mod shrink;
mod store;
mod tamper;
pub mod thief;
pub mod trace;
pub mod uplink;

pub use command::{Options, run, seeds_until_caught};
pub use rest::Realised;
