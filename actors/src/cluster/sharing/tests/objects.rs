//! Nodes that share identities and addresses through objects of an API server.

mod addresses;
mod identities;
mod outages;
mod ports;
pub(crate) mod town;
