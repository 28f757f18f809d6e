use std::time::Duration;

use serde::Serialize;

use crate::{
    host::{AskError, Message, Reply},
    ports::{KernelDone, Swept},
};

/// How collecting goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ConntrackStatus {
    /// Time between two rounds, as it is now.
    pub interval: Duration,
    /// Rounds so far.
    pub rounds: u64,
    /// Connections, in the last round.
    pub connections: Swept,
    /// Translations of addresses, in the last round.
    pub translations: Swept,
    /// Connections removed in all rounds.
    pub deleted_total: u64,
    /// Translations removed in all rounds.
    pub translations_deleted_total: u64,
    /// Why the last round failed.
    pub last_error: Option<String>,
}

/// What the collector can be told.
pub enum ConntrackMsg {
    /// Restore is over: begin.
    Begin,
    /// Time for a round.
    Collect,
    /// What the round found.
    Collected(Result<KernelDone, AskError>),
    /// Show how it goes.
    Show(Reply<ConntrackStatus>),
}

impl Message for ConntrackMsg {
    fn kind(&self) -> &'static str {
        match self {
            Self::Begin => "Begin",
            Self::Collect => "Collect",
            Self::Collected(_) => "Collected",
            Self::Show(_) => "Show",
        }
    }
}
