//! Which nodes of the cluster can be reached: their own addresses and their health endpoints, by ICMP and by HTTP.
//!
//! ICMP finds out soon, HTTP finds out more. An address is sent an echo request every ten seconds, one that does
//! not answer again after a second; after three in a row it is said to be unreachable. Who answers HTTP is asked
//! as often as Cilium does, and at once where ICMP says something new. A failure alone is shown to nobody: an
//! agent that restarts is away for less than three tries. See [`schedule`] for how much all of that is.

mod actor;
mod answers;
mod check;
mod messages;
pub mod schedule;
#[cfg(test)]
mod tests;
mod view;

pub use actor::{Reachability, ReachabilityPeers, ReachabilitySettings};
pub use messages::ReachabilityMsg;
pub use view::{
    AddressReach, BUCKETS_US, LatencyHistogram, LatencyKey, NodeReach, ProbeResult,
    ReachabilityView,
};
