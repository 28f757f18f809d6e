//! Shape of an endpoint's desired and realised rows, side by side.

use serde::{Deserialize, Serialize};

/// What an endpoint's rows in the kernel's maps should be, and what they are.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct EndpointRows {
    /// The endpoint's number.
    pub id: u16,
    /// Its state.
    pub state: String,
    /// Revision of the policy that its policy map shows.
    pub policy_revision: u64,
    /// Why its last build failed, if it did.
    pub last_error: Option<String>,
    /// Its rows by map and key; those that differ first.
    pub rows: Vec<ComparedRow>,
    /// Its log, newest first.
    pub log: Vec<RowsLogEntry>,
}

/// A row as text, twice.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct ComparedRow {
    /// Name of the map.
    pub map: String,
    /// The row's key.
    pub key: String,
    /// What the actors want there; null if no row.
    pub desired: Option<String>,
    /// What the kernel has there; null if no row.
    pub realised: Option<String>,
}

/// A line of an endpoint's log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct RowsLogEntry {
    /// When, nanoseconds since 1970.
    pub wall: u64,
    /// `OK`, `Warning` or `Failed`.
    pub code: String,
    /// What happened.
    pub message: String,
}
