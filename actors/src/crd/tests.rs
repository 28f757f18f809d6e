mod addresses;
mod identities;
mod outages;
pub(crate) mod town;
