mod addresses;
mod identities;
mod outages;
mod town;
