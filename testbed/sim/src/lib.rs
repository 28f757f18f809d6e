//! The simulator: whole lifetimes of a node, by the thousand, in virtual time.
//!
//! The actors are those of production. Kernel and disk are in memory and do one step at a time, in
//! an order that follows from a seed; a [history] says what happens to the node, and an
//! `oracle` looks at what every step makes of packets.
//!
//! Imports go down in this order: report, runner, checks, faults, world, oracle, operators, history, model; record is
//! used by all who tell what happened.

mod checks;
mod faults;
pub mod history;
pub mod model;
pub mod operators;
mod oracle;
pub mod random;
pub mod record;
mod report;
pub mod runner;
pub mod world;

pub use checks::Realised;
pub use report::{Options, run, seeds_until_caught};
