//! Nodes that share identities and addresses through objects of an API server.

mod addresses;
pub(crate) mod fixture;
mod identities;
mod outages;
mod ports;
