use std::{io, path::PathBuf};

use volvox_actors::ports::KvError;

use crate::ports::causes::with_causes;

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
    /// No answer came in time.
    #[error("no answer within {0} s")]
    Silence(u64),
}

impl EtcdError {
    /// Whether one of both does not trust the other.
    fn is_about_trust(&self) -> bool {
        // An alert is told as one word: BadCertificate.
        let cause = self.to_string().to_lowercase();
        ["authentication", "user name", "permission denied", "certificate"]
            .iter()
            .any(|word| cause.contains(word))
    }

    /// The same for the actors.
    pub(super) fn told(&self, op: &'static str, about: &str) -> KvError {
        let remedy = match self {
            Self::File { .. } | Self::NoEndpoint => "it is tried again",
            _ if self.is_about_trust() => {
                "correct the user, the password or the certificates in the file that etcd.config \
                 of --kvstore-opt names; it is read again with the next connection"
            }
            // All that a client hears of a server that does not like its certificate.
            _ if self.to_string().contains("connection closed") => {
                "look whether etcd runs and takes this node's certificate (cert-file in the file \
                 that etcd.config of --kvstore-opt names); its log says what it refused"
            }
            _ => "look whether etcd runs, has a majority and lets this node in (--kvstore-opt)",
        };
        KvError { op, about: about.to_owned(), cause: self.to_string(), remedy }
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
