//! The auditor: after each look at the kernel it says which [invariants](crate::node::invariants) do not
//! hold.
//!
//! Objective: what should never be is noticed on the node where it is, within half a minute, and
//! without a cost that anybody feels. Non-objective: to put anything right; endpoints compare the
//! kernel with what they wrote themselves.
//!
//! The kernel is not asked for it: the supervisor of endpoints looks at it anyway, and hands on what
//! it saw. It also counts the rows that their owners found changed by somebody else. Only policy maps are read besides, some at a time, so that a look costs the same on a
//! full node. What changed between the beginning and the end of a look is left out: half of it may
//! be older than the other half.

mod actor;
mod answers;
mod messages;
#[cfg(test)]
mod tests;

pub use actor::{Auditor, AuditorPeers};
pub use messages::{AuditView, AuditorMsg, Drifted};
