//! Faults that somebody caused while a life was recorded, as a chaos run notes them beside its recordings.

use std::{fs::File, io::Read, path::Path, sync::Arc};

use axum::extract::{Query, State};
use serde::{Deserialize, Serialize};

use super::{Lives, error::DashboardError};
use crate::http::{Answer, ok};

/// The file beside recordings.
pub const FAULTS: &str = "faults.json";
/// Bytes of it that are read at most: more than any history has.
const BYTES_MAX: u64 = 4 << 20;

/// A fault, or whatever else a history had happen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// When, nanoseconds since 1970.
    pub at_unix_ns: u64,
    /// How long it took, nanoseconds.
    pub took_ns: u64,
    /// In plain words.
    pub what: String,
}

/// Those that stand beside a recording; none if there is no such file.
pub(super) fn beside(recording: &Path) -> Result<Vec<Fault>, DashboardError> {
    let path = recording.with_file_name(FAULTS);
    let Ok(file) = File::open(&path) else { return Ok(Vec::new()) };
    serde_json::from_reader(file.take(BYTES_MAX))
        .map_err(|cause| DashboardError::Faults { path, cause })
}

#[derive(Debug, Deserialize)]
pub(super) struct Asked {
    /// Which life.
    life: String,
}

/// Faults of a life. Those that happen to a running agent nobody notes.
pub(super) async fn get(State(lives): State<Arc<Lives>>, Query(asked): Query<Asked>) -> Answer {
    ok(&lives.faults(&asked.life))
}
