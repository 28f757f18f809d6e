//! Nodes that share identities and addresses through a store; `fixture` is the bench of these tests.

pub(crate) mod fixture;
mod identities;
mod numbered;
mod outages;
mod ports;
mod replaced;
mod sharing;
mod two;
