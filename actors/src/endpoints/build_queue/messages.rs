//! Messages to the build queue, the classes of builds, and the view of the queue.

use serde::Serialize;

use super::Permit;
use crate::{
    host::{Lane, Message, Reply},
    model::EndpointId,
};

/// Whose build goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// A pod is waiting to start.
    NewPod,
    /// Regeneration of what already runs.
    Mass,
}

/// How the queue stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Queued {
    /// Permits there are. More are out only in place of those that are held for long.
    pub permits: usize,
    /// Who builds now, longest first.
    pub building: Vec<EndpointId>,
    /// Who waits, first to last.
    pub waiting: Vec<(EndpointId, Class)>,
}

/// What the build queue can be told.
pub enum BuildQueueMsg {
    /// Ask for a permit. An endpoint that already waits keeps its place, or a better one; its
    /// earlier question is answered as gone.
    Acquire {
        /// Who.
        endpoint: EndpointId,
        /// How urgent.
        class: Class,
        /// Where the permit goes.
        reply: Reply<Permit>,
    },
    /// Show the queue.
    Show(Reply<Queued>),
}

impl Message for BuildQueueMsg {
    fn kind(&self) -> &'static str {
        match self {
            Self::Acquire { .. } => "Acquire",
            Self::Show(_) => "Show",
        }
    }

    fn lane(&self) -> Lane {
        match self {
            Self::Acquire { class: Class::Mass, .. } => Lane::Regeneration,
            Self::Acquire { class: Class::NewPod, .. } => Lane::Request,
            Self::Show(_) => Lane::Control,
        }
    }
}
