//! Answers that concern another cluster: what comes of own questions, timers and ports.

use crate::{
    cluster::origins::{ClusterConfig, ConfigError},
    host::{AskError, Message},
};

/// What the reader of another cluster hears of its own questions, timers and ports.
pub(crate) enum RemoteAnswer {
    /// Time to tell again what a full mailbox did not take.
    Retell,
    /// Time to look whether those have stopped who are to.
    Dismiss,
    /// Whether its number can be what it says.
    Claimed(u64, ClusterConfig, Result<Result<(), ConfigError>, AskError>),
    /// Time to ask that again.
    Again(u64),
}

impl Message for RemoteAnswer {
    fn kind(&self) -> &'static str {
        match self {
            Self::Retell => "Retell",
            Self::Dismiss => "Dismiss",
            Self::Claimed(..) => "Claimed",
            Self::Again(_) => "Again",
        }
    }
}
