//! Answers that concern pods: what comes of own questions, timers and ports.

use crate::host::{AskError, Message};

/// What the owner of pods hears of its own questions, timers and ports.
pub enum WorkloadsAnswer {
    /// Time to tell again what a full mailbox did not take.
    Retell,
    /// The cluster's pods are all on their way, or are asked for again.
    Synced(Result<(), AskError>),
}

impl Message for WorkloadsAnswer {
    fn kind(&self) -> &'static str {
        match self {
            Self::Retell => "Retell",
            Self::Synced(_) => "Synced",
        }
    }
}
