//! What who marks Nodes shows.

use serde::Serialize;

/// What who marks Nodes shows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MarksView {
    /// Nodes on which an agent is ready.
    pub ready: usize,
    /// Nodes on which agents are scheduled, and none is ready.
    pub unready: usize,
    /// Taints that were removed in this life.
    pub untainted: u64,
    /// Taints that were set in this life.
    pub tainted: u64,
    /// Conditions that were written in this life.
    pub said_up: u64,
    /// Writes that failed in this life.
    pub failed: u64,
    /// Why the last one did.
    pub error: Option<String>,
}
