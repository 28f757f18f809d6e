//! The report of a restart: its phases, the fate of each endpoint, and what went wrong.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::model::EndpointId;

/// How a restart went, for `volvox restore report`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RestoreReport {
    /// Phases that have ended, in order.
    pub phases: Vec<PhaseReport>,
    /// What became of each endpoint of the run before.
    pub endpoints: BTreeMap<EndpointId, EndpointReport>,
    /// What was put aside, and why.
    pub quarantined: Vec<String>,
    /// The node whose state directory was found, if that is another one.
    #[serde(default)]
    pub of_another: Option<String>,
    /// How many endpoints of the run before were left, where nothing is restored.
    #[serde(default)]
    pub left: usize,
    /// What nobody claimed any more and was removed.
    pub pruned: Vec<String>,
    /// Endpoints that could not be built yet: until each is, or is gone, rows of the ipcache that
    /// nobody claims may be theirs and stay.
    #[serde(default)]
    pub ipcache_waits_for: BTreeSet<EndpointId>,
    /// What could not be done, with the remedy.
    pub problems: Vec<String>,
    /// Whether everything above is final.
    pub finished: bool,
}

/// One phase of a restart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PhaseReport {
    /// Its name.
    pub name: String,
    /// How long it took, seconds.
    pub seconds: f64,
}

/// What became of an endpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EndpointReport {
    /// Its pod, `namespace/name`, as far as it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    /// Its fate.
    pub fate: RestoreOutcome,
    /// What it was restored from: a file's name, or `kernel`.
    pub source: String,
    /// What was missing and what stood in for it.
    pub notes: Vec<String>,
    /// Why it failed, if it did.
    pub error: Option<String>,
}

/// An endpoint's fate in a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RestoreOutcome {
    /// It is on its way back.
    Pending,
    /// It is back as its state file says.
    Restored,
    /// It is back; the kernel stood in for its state file.
    Rebuilt,
    /// It is back, but its last build failed; its old datapath serves.
    Degraded,
    /// It could not be brought back.
    Failed,
}

impl RestoreReport {
    /// How many endpoints met that fate.
    pub fn count(&self, fate: RestoreOutcome) -> usize {
        self.endpoints.values().filter(|endpoint| endpoint.fate == fate).count()
    }
}
