//! Errors of the command line client, and the exit code for each.

use std::{io, process::ExitCode};

use volvox_connectivity::ConnectivityError;
use volvox_inspect::dashboard::DashboardError;
use volvox_install::InstallError;
use volvox_maps::DatapathError;
use volvox_rest::RestError;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The agent did not answer, or refused.
    #[error("{0}")]
    Rest(#[from] RestError),
    /// The kernel's maps cannot be read.
    #[error("{0}")]
    Datapath(#[from] DatapathError),
    /// A flight record cannot be shown.
    #[error("{0}")]
    Dashboard(#[from] DashboardError),
    /// Nothing was installed, changed or removed, or not all of it.
    #[error("{0}")]
    Install(#[from] InstallError),
    /// What reaches what in a cluster cannot be tried.
    #[error("{0}")]
    Connectivity(#[from] ConnectivityError),
    /// Nobody answers there.
    #[error("{0}")]
    Unreachable(String),
    /// There is no such thing.
    #[error("{0}")]
    NotFound(String),
    /// It was asked wrongly.
    #[error("{0}")]
    Usage(String),
    /// What is wrong was said; the code tells which guarantee it breaks.
    #[error("the node is not as it is to be")]
    Differs {
        /// The exit code.
        code: u8,
    },
    /// Anything else.
    #[error("{0}")]
    Failed(String),
    /// The answer cannot be written.
    #[error("cannot write the answer: {0}")]
    Write(#[from] io::Error),
}

impl ClientError {
    /// Whether nothing is to be said of it: whoever read the answer had enough.
    pub fn is_quiet(&self) -> bool {
        matches!(self, Self::Write(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }

    /// The program's exit code.
    pub(super) fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.code())
    }

    /// The same as a number.
    pub fn code(&self) -> u8 {
        match self {
            _ if self.is_quiet() => 0,
            Self::Rest(RestError::Unreachable { .. }) | Self::Unreachable(_) => 3,
            Self::Rest(error) if error.status() == Some(404) => 4,
            Self::Rest(error) if error.status() == Some(400) => 2,
            Self::Install(InstallError::Unreachable { .. }) => 3,
            Self::Install(InstallError::NotInstalled) => 4,
            Self::Install(InstallError::Value(_) | InstallError::File { .. }) => 2,
            Self::Connectivity(error) if error.is_unasked() => 3,
            Self::Connectivity(ConnectivityError::Usage(_)) => 2,
            Self::NotFound(_) | Self::Dashboard(_) => 4,
            Self::Usage(_) => 2,
            Self::Differs { code } => *code,
            Self::Rest(_)
            | Self::Datapath(_)
            | Self::Install(_)
            | Self::Connectivity(_)
            | Self::Failed(_)
            | Self::Write(_) => 1,
        }
    }
}
