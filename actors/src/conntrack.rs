//! Collects connections whose lifetime is over, as often as there is something to collect.

mod actor;
mod interval;
mod messages;
#[cfg(test)]
mod tests;

pub use actor::Conntrack;
pub use messages::{ConntrackMsg, ConntrackStatus};
