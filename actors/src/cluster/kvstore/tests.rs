//! Tests of what nodes share through a store; `town` is the bench of most of them.

mod api;
mod conformance;
mod identities;
mod lists;
mod memory;
mod numbered;
mod outages;
mod ports;
mod replaced;
mod sharing;
pub(crate) mod town;
mod two;
