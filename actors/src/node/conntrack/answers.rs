//! Answers that concern connection tracking: what comes of own questions, timers and ports.

use crate::{
    host::{AskError, Message},
    ports::KernelDone,
    services::service_cache::LeavingBackend,
};

/// What the owner of connection tracking hears of its own questions, timers and ports.
pub enum ConntrackAnswer {
    /// Time for a round.
    Collect,
    /// Which backends the round is to look for.
    Leaving(Result<Vec<LeavingBackend>, AskError>),
    /// What the round found.
    Collected(Vec<LeavingBackend>, Result<KernelDone, AskError>),
}

impl Message for ConntrackAnswer {
    fn kind(&self) -> &'static str {
        match self {
            Self::Collect => "Collect",
            Self::Leaving(..) => "Leaving",
            Self::Collected(..) => "Collected",
        }
    }
}
