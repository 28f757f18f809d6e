//! Whether a node is as it is to be, found out from outside: what the kernel has and what is on disk are
//! compared with each other, and with what the agent wants if one answers.
//!
//! It is a pure function over copies of the three, and repairs nothing. The client asks the question of a
//! living node, the chaos runs at the end of each history, and the simulator whenever a node is at rest.

mod compare;
mod desired;
mod difference;
mod endpoints;
mod leftovers;
mod services;
#[cfg(test)]
mod tests;

pub use compare::{Evidence, differences};
pub use desired::{DesiredEndpoint, DesiredNode, ExpectedFrontend, PolicyDigest};
pub use difference::{Guarantee, NodeDifference};
