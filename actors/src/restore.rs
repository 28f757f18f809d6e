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
mod health_endpoint;
mod inheritance;
mod learn;
mod messages;
mod owned;
mod plan;
mod prune;
mod rebuild;
mod remains;
mod report;
mod state;
#[cfg(test)]
mod tests;

pub use inheritance::Inheritance;
pub use messages::{MappingSource, RestoreInput, RestoreMsg};
pub use plan::{RestorePlan, plan};
pub use report::{EndpointReport, PhaseReport, RestoreOutcome, RestoreReport};
pub use state::{Restore, RestorePeers};
