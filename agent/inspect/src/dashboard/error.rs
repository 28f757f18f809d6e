//! Errors of the dashboard: records that it cannot read.

use std::{io, path::PathBuf};

use crate::{flight::FlightFileError, http::ApiError};

/// Why a record cannot be shown.
#[derive(Debug, thiserror::Error)]
pub enum DashboardError {
    /// The file cannot be read.
    #[error("{} cannot be read: {cause}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's words.
        cause: io::Error,
    },
    /// The file beside a record does not say which faults there were.
    #[error("{} does not list faults: {cause}; move it away, or have a chaos run write it again", .path.display())]
    Faults {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        cause: serde_json::Error,
    },
    /// The file is no record.
    #[error(transparent)]
    Ring(#[from] FlightFileError),
    /// The file looks like an exported record, but is none.
    #[error(
        "{} is no exported record: {cause}; `volvox trace export --json` writes them",
        .path.display()
    )]
    Export {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        cause: serde_json::Error,
    },
}

impl From<DashboardError> for ApiError {
    /// There is no such record, and the text says why.
    fn from(error: DashboardError) -> Self {
        Self::not_found(error)
    }
}
