mod api;
mod conformance;
mod identities;
mod memory;
mod outages;
mod sharing;
mod town;
mod two;
