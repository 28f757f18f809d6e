mod addresses;
mod identities;
mod outages;
mod ports;
pub(crate) mod town;
