//! Who owns the ways to other nodes: routes to their pods, and in tunnel mode the devices by which
//! packets leave in a tunnel.
//!
//! ```text
//!   store, CiliumNodes ─► nodes ─► routes ─► kernel
//! ```
//!
//! Every look compares what there is with what is desired and writes the difference; a restart at
//! which nothing changed writes nothing. What an earlier run left is removed when all nodes that
//! there are were named, and what takes its place stands. What somebody else made is left alone
//! and named.

mod actor;
mod answers;
mod desired;
mod messages;
mod plan;
mod settings;
#[cfg(test)]
mod tests;

pub use actor::Routes;
pub use messages::{Neighbour, RoutesMsg, RoutesView};
pub use settings::{RoutesSettings, RoutingMode};
