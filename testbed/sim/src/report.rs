//! What people are told: `cargo testbed sim`.

mod command;
mod mutants;
mod parallel;
mod shrink;

pub use self::{
    command::{Options, run},
    mutants::seeds_until_caught,
};
