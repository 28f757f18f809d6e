//! Collects connections whose lifetime is over, as often as there is something to collect, and at once
//! where the datapath finds no room.

mod actor;
mod answers;
mod interval;
mod messages;
mod rounds;
#[cfg(test)]
mod tests;

pub use actor::Conntrack;
pub use messages::{ConntrackMsg, ConntrackStatus, FullSignals, FullTable, Signals};
