//! Why containerd does not answer, and what to do about it.

use std::{io, path::PathBuf};

/// What went wrong with containerd.
#[derive(Debug, thiserror::Error)]
pub enum ContainerdError {
    /// There is no thread for it.
    #[error("cannot start the thread that speaks to containerd: {0}; raise the limit of threads")]
    Thread(#[source] io::Error),
    /// Nobody answers at the socket.
    #[error(
        "nobody answers at {socket}: {cause}; start containerd, or name its socket with \
         --container-runtime-endpoint"
    )]
    Unreachable {
        /// The socket.
        socket: PathBuf,
        /// The system's words.
        cause: String,
    },
    /// It took too long.
    #[error("{op}: containerd gave no answer in {seconds} s; see whether it hangs")]
    Silence {
        /// What was to be done.
        op: &'static str,
        /// For how long.
        seconds: u64,
    },
    /// It refused.
    #[error("{op}: {cause}; see containerd's log")]
    Refused {
        /// What was to be done.
        op: &'static str,
        /// Its words.
        cause: String,
    },
    /// It is another program than containerd.
    #[error(
        "who answers is not containerd ({cause}); name containerd's socket with \
         --container-runtime-endpoint, or say \"\" to follow none"
    )]
    Stranger {
        /// Its words.
        cause: String,
    },
    /// The events ended.
    #[error("containerd ended its events; see whether it was restarted")]
    Ended,
}
