//! The health endpoint of this node: an endpoint of the agent's own, in a network namespace of its own, which
//! other nodes probe. Who reaches it knows that packets get to endpoints of this node, programs, policy and all.
//!
//! ```text
//!  look at its place ─▶ its endpoint? ──both are there, and match──▶ at rest ─▶ look again each minute
//!          ▲                  │ no                                      ▲
//!          │     remove endpoint and place ─▶ addresses ─▶ place ─▶ endpoint
//!          └───────────────── a longer pause ◀──── whatever fails
//! ```
//!
//! Cilium's goes with its agent and is made anew. This one stays: its place outlives the agent, and its endpoint
//! comes back like any other, so a restart moves nothing and loses no packet. It is made anew where its place is
//! gone, as after a reboot, or where nobody answered there for five minutes; its addresses stay in any case.

mod actor;
mod answers;
mod messages;
#[cfg(test)]
mod tests;

pub use actor::{HealthEndpoint, HealthEndpointPeers, HealthEndpointSettings};
pub use messages::{HealthEndpointMsg, HealthEndpointView};
