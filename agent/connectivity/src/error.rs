//! Why a test cannot be made: the thing, the cause, and the way out.

use volvox_install::InstallError;

/// Why it cannot be made, or not to its end.
#[derive(Debug, thiserror::Error)]
pub enum ConnectivityError {
    /// The way to the server is not known.
    #[error("{0}")]
    Access(#[from] InstallError),
    /// The server does not answer.
    #[error(
        "{server} does not answer ({cause}): see that it runs, or name another by --kubeconfig or --context"
    )]
    Unreachable {
        /// Its address, and who names it.
        server: String,
        /// What is wrong.
        cause: String,
    },
    /// Whoever asks may not.
    #[error(
        "the API server does not let you {doing} ({cause}): the test needs the rights to make namespaces, \
         and in them pods, services, leases and policies, and to run commands in its pods (pods/exec)"
    )]
    Denied {
        /// What it was asked to do.
        doing: String,
        /// What it says.
        cause: String,
    },
    /// The server does not do it.
    #[error("the API server refused to {doing}: {cause}")]
    Server {
        /// What it was asked to do.
        doing: String,
        /// What it says.
        cause: String,
        /// The status of its answer.
        code: u16,
    },
    /// It was asked wrongly.
    #[error("{0}")]
    Usage(String),
    /// It is refused, for that reason; the text has the way out.
    #[error("{0}")]
    Refused(String),
    /// Pods do not get ready.
    #[error("{}", .0.join("\n"))]
    NotReady(Vec<String>),
    /// A pod cannot be asked.
    #[error("{pod} cannot be asked through the API server: {cause}")]
    Exec {
        /// The pod.
        pod: String,
        /// What is wrong.
        cause: String,
    },
    /// Somebody ended it.
    #[error("interrupted")]
    Interrupted,
}

impl ConnectivityError {
    /// Whether the cluster could not be asked at all.
    pub fn is_unasked(&self) -> bool {
        matches!(self, Self::Access(_) | Self::Unreachable { .. } | Self::Denied { .. })
    }

    /// The status of the server's answer, if that is what it is.
    pub(crate) fn code(&self) -> Option<u16> {
        match self {
            Self::Server { code, .. } => Some(*code),
            _ => None,
        }
    }
}
