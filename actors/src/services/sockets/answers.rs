//! Answers that concern the end of sockets: what comes of own questions, timers and ports.

use std::sync::Arc;

use crate::{
    endpoints::endpoint::EndpointView,
    host::{AskError, Message},
    ports::KernelDone,
};

/// What who ends sockets hears of its own questions, timers and ports.
pub enum SocketsAnswer {
    /// Whose sockets are to be looked at.
    Endpoints(Result<Vec<Arc<EndpointView>>, AskError>),
    /// What the round did.
    Ended(Result<KernelDone, AskError>),
    /// Time to try again.
    Retry,
}

impl Message for SocketsAnswer {
    fn kind(&self) -> &'static str {
        match self {
            Self::Endpoints(_) => "Endpoints",
            Self::Ended(_) => "Ended",
            Self::Retry => "Retry",
        }
    }
}
