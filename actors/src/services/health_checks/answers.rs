//! Answers that concern health checks: what comes of own questions, timers and ports.

use crate::{
    host::{AskError, Message},
    ports::{HealthAnswer, ListenError},
};

/// What who answers load balancers hears of its own questions, timers and ports.
pub enum HealthChecksAnswer {
    /// What came of a port that was to answer like that.
    Answered(u16, Option<HealthAnswer>, Result<Result<(), ListenError>, AskError>),
    /// Time to try a port again.
    Retry(u16),
}

impl Message for HealthChecksAnswer {
    fn kind(&self) -> &'static str {
        match self {
            Self::Answered(..) => "Answered",
            Self::Retry(_) => "Retry",
        }
    }
}
