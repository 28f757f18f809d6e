//! The message that starts a round of ending sockets, and the status of the rounds.

use serde::Serialize;

use crate::host::Message;

/// How ending sockets goes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SocketsStatus {
    /// Backends went since the last round began.
    pub due: bool,
    /// Rounds so far.
    pub rounds: u64,
    /// Sockets ended in all of them.
    pub ended_total: u64,
    /// Why the last round failed.
    pub last_error: Option<String>,
}

/// What the ender of sockets can be told.
pub enum SocketsMsg {
    /// The kernel has fewer backends than it had.
    BackendsGone,
}

impl Message for SocketsMsg {
    fn kind(&self) -> &'static str {
        match self {
            Self::BackendsGone => "BackendsGone",
        }
    }
}
