//! What the agent keeps on disk, as formats and plans; the doing is left to a
//! [port](crate::ports::Disk).
//!
//! Objective: an endpoint's record survives anything, is never trusted unverified, and one bad
//! record costs one endpoint at most. Records are Cilium's (1.5, 1.9 and 1.19 are read; the two
//! forms of 1.19 are written) with a stamp of ours in a key that others ignore.
//!
//! ```text
//! <state-dir>/state/442/ep_config.json, ep_config.h   the record, twice
//!                   442_next, 442_next_fail           a build under way, a build that failed
//!                   quarantine/442.1/                 what could not be read, kept as evidence
//!                   node.0.json, node.1.json          the node's own addresses
//! <lib-dir>/identities.0.json, identities.1.json      numbers that outlive a reboot
//!           identities.changes.0.json, ….1.json       what became of them since, in short
//!           health.0.json, health.1.json       addresses of the health endpoint
//!           pools.0.json, pools.1.json                prefixes of pools, and which are being given back
//!           node.0.json, node.1.json                  a copy, should the state directory be lost
//! ```

mod error;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod header;
mod health_record;
mod identity_table;
mod node_state;
mod plans;
mod pool_record;
mod record;
mod scan;
mod seal;
mod slots;
#[cfg(test)]
mod tests;

pub use error::StateError;
pub use header::writer_of_header;
pub use health_record::HealthRecord;
pub use identity_table::{IdentityChanges, IdentityTable, NumberedLabels, NumberedPorts};
pub use node_state::{NodeCopy, NodeState};
pub use plans::{commit_plan, quarantine_plan, remove_plan};
pub use pool_record::{PoolPrefix, PoolPrefixes, PoolRecord};
pub use record::{EndpointRecord, OperatorLabels, Options, SecurityLabels};
pub use scan::{Form, FoundRecord, Quarantined, ScannedDirectory, StateFiles, scan};
pub use slots::{Slots, Stored};
