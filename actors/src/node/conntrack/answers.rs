//! Answers that concern connection tracking: what comes of own questions, timers and ports.

use crate::{
    host::{AskError, Message},
    ports::KernelDone,
};

/// What the owner of connection tracking hears of its own questions, timers and ports.
pub enum ConntrackAnswer {
    /// Time for a round.
    Collect,
    /// What the round found.
    Collected(Result<KernelDone, AskError>),
}

impl Message for ConntrackAnswer {
    fn kind(&self) -> &'static str {
        match self {
            Self::Collect => "Collect",
            Self::Collected(_) => "Collected",
        }
    }
}
