//! Answers that concern the container runtime: what comes of own questions, timers and the port.

use std::{collections::BTreeSet, sync::Arc};

use crate::{
    endpoints::{endpoint::EndpointView, supervisor::Abandoned},
    host::{AskError, Message},
    ports::{RuntimeContainers, RuntimeError, RuntimeEvent},
};

/// What the runtime said, or why it said nothing.
pub(super) type LookUp = Result<Result<RuntimeContainers, RuntimeError>, AskError>;

/// What who follows the container runtime hears of its own questions, timers and the port.
pub enum RuntimeFollowerAnswer {
    /// Restored endpoints are programmed.
    Programmed(Result<bool, AskError>),
    /// Time to connect.
    Connect,
    /// From the runtime, by the connection of that number.
    Told(u64, RuntimeEvent),
    /// Nothing came by that connection for too long.
    Silent(u64),
    /// Time for a round.
    Round,
    /// The endpoints there are.
    Endpoints(Result<Vec<Arc<EndpointView>>, AskError>),
    /// The sandboxes of all pods, by the connection of that number.
    Listed(u64, LookUp),
    /// These containers, by the connection of that number.
    LookedUp(u64, BTreeSet<String>, LookUp),
    /// What the kernel showed of those that are gone.
    Judged(Result<Abandoned, AskError>),
}

impl Message for RuntimeFollowerAnswer {
    fn kind(&self) -> &'static str {
        match self {
            Self::Programmed(_) => "Programmed",
            Self::Connect => "Connect",
            Self::Told(_, RuntimeEvent::Follows(_)) => "Follows",
            Self::Told(_, RuntimeEvent::Alive) => "Alive",
            Self::Told(_, RuntimeEvent::Changed(_)) => "Changed",
            Self::Told(_, RuntimeEvent::Ended(_)) => "Ended",
            Self::Silent(_) => "Silent",
            Self::Round => "Round",
            Self::Endpoints(_) => "Endpoints",
            Self::Listed(..) => "Listed",
            Self::LookedUp(..) => "LookedUp",
            Self::Judged(_) => "Judged",
        }
    }
}
