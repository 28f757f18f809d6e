//! Errors of etcd and of its options, what kind each is, and how the actors are told of it.

use std::{io, path::PathBuf};

use volvox_actors::ports::KvError;
#[cfg(feature = "etcd-rs")]
use volvox_system::causes::reported;
use volvox_system::causes::with_causes;

/// Why etcd cannot be spoken to.
#[derive(Debug, thiserror::Error)]
pub enum EtcdError {
    /// There is no thread for it.
    #[error("cannot start the thread that speaks to etcd: {0}; raise the limit of threads")]
    Thread(io::Error),
    /// A file that the options name cannot be read.
    #[error("{}: {cause}; correct etcd.config of --kvstore-opt, or the file", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        cause: String,
    },
    /// The options name no server.
    #[error("no server is named: say etcd.address=URL or etcd.config=FILE in --kvstore-opt")]
    NoEndpoint,
    /// A server's answer, or the lack of one.
    #[error("{}", cause(.0))]
    Client(#[from] etcd_client::Error),
    /// The same by the other client.
    #[cfg(feature = "etcd-rs")]
    #[error("{}", other_cause(.0))]
    OtherClient(Box<etcd_rs::Error>),
    /// What the other client cannot do.
    #[cfg(feature = "etcd-rs")]
    #[error("not possible with --kvstore=etcd-rs: {0}")]
    Unable(&'static str),
    /// No answer came in time.
    #[error("no answer within {0} s")]
    Silence(u64),
}

/// As gRPC numbers its codes. The server has it for a revision that is compacted or to come, too.
const OUT_OF_RANGE: i32 = 11;
const UNAUTHENTICATED: i32 = 16;

impl EtcdError {
    /// The code of an answer.
    fn code(&self) -> Option<i32> {
        match self {
            Self::Client(etcd_client::Error::GRpcStatus(status)) => Some(status.code().into()),
            #[cfg(feature = "etcd-rs")]
            Self::OtherClient(error) => match &**error {
                etcd_rs::Error::Response(status) => Some(status.code().into()),
                _ => None,
            },
            _ => None,
        }
    }

    /// Whether an answer was not read because it is too large, or the revision is not there.
    pub(super) fn is_out_of_range(&self) -> bool {
        self.code() == Some(OUT_OF_RANGE)
    }

    /// Whether the revision is not there any more.
    #[cfg(feature = "etcd-rs")]
    pub(super) fn is_compacted(&self) -> bool {
        // The server's words are all that tells it from one to come.
        self.is_out_of_range() && self.to_string().contains("compacted")
    }

    /// Whether the server does not know this login any more.
    pub(super) fn is_login_over(&self) -> bool {
        self.code() == Some(UNAUTHENTICATED)
    }

    /// Whether one of both does not trust the other.
    fn is_about_trust(&self) -> bool {
        // An alert is told as one word: BadCertificate.
        let cause = self.to_string().to_lowercase();
        ["authentication", "user name", "permission denied", "certificate"]
            .iter()
            .any(|word| cause.contains(word))
    }

    /// Whether the server cut the connection: all that a client hears of one that does not like its
    /// certificate.
    fn is_about_a_cut(&self) -> bool {
        let cause = self.to_string().to_lowercase();
        ["connection closed", "connection reset", "broken pipe"]
            .iter()
            .any(|word| cause.contains(word))
    }

    /// The same for the actors.
    pub(super) fn reported(&self, op: &'static str, about: &str) -> KvError {
        let remedy = match self {
            Self::File { .. } | Self::NoEndpoint => "it is tried again",
            #[cfg(feature = "etcd-rs")]
            Self::Unable(_) => "the file is read again with the next connection",
            _ if self.is_about_trust() => {
                "correct the user, the password or the certificates in the file that etcd.config \
                 of --kvstore-opt names; it is read again with the next connection"
            }
            _ if self.is_about_a_cut() => {
                "look whether etcd runs and takes this node's certificate (cert-file in the file \
                 that etcd.config of --kvstore-opt names); its log says what it refused"
            }
            _ => "look whether etcd runs, has a majority and lets this node in (--kvstore-opt)",
        };
        KvError { op, about: about.to_owned(), cause: self.to_string(), remedy }
    }
}

#[cfg(feature = "etcd-rs")]
impl From<etcd_rs::Error> for EtcdError {
    fn from(error: etcd_rs::Error) -> Self {
        Self::OtherClient(error.into())
    }
}

/// The server's own words where there are some.
fn cause(error: &etcd_client::Error) -> String {
    match error {
        etcd_client::Error::GRpcStatus(status) => with_causes(status.message().to_owned(), status),
        // "transport error" alone helps nobody.
        etcd_client::Error::TransportError(inner) => with_causes(error.to_string(), inner),
        other => other.to_string(),
    }
}

#[cfg(feature = "etcd-rs")]
fn other_cause(error: &etcd_rs::Error) -> String {
    match error {
        etcd_rs::Error::Response(status) => with_causes(status.message().to_owned(), status),
        etcd_rs::Error::WatchEventExhausted => "the server ended the watch".to_owned(),
        other => reported(other),
    }
}
