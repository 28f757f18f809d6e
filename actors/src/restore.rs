//! Restoring: endpoint actors are spawned and each is sent a RegenerateAfterRestore message.
//!
//! ```text
//! disk and kernel ─► plan ─► addresses reserved ─► actors spawned ─► [gate: new pods may come]
//!                 ─► RegenerateAfterRestore to each ─► all settled ─► what nobody claims goes
//! ```

mod actor;
mod answers;
mod cleanup;
mod finish;
mod inheritance;
mod learn;
mod messages;
mod plan;
mod prune;
mod rebuild;
mod remains;
mod report;
#[cfg(test)]
mod tests;

pub use actor::{Observed, Restore, RestorePeers};
pub use inheritance::Inheritance;
pub use messages::{RestoreInput, RestoreMsg, Source};
pub use plan::{RestorePlan, plan};
pub use report::{EndpointReport, Fate, PhaseReport, RestoreReport};
