//! Nodes that share identities and addresses through a store; `town` is the bench of these tests.

mod identities;
mod numbered;
mod outages;
mod ports;
mod replaced;
mod sharing;
pub(crate) mod town;
mod two;
