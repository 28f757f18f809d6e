//! Messages to who brings definitions, and how each of them stands.

use serde::Serialize;

use crate::host::{Lane, Message, Reply};

/// How a definition stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub enum DefinitionState {
    /// It was not looked at yet, or it is on its way.
    #[default]
    Unknown,
    /// The server serves it, as it was brought.
    Established,
    /// The server serves a newer one of this version, which stays.
    Newer(String),
    /// It could not be looked at or written; that is tried again.
    Failing {
        /// Why.
        why: String,
        /// How often it was tried, one after the other.
        tries: u32,
    },
}

/// A definition as who brings it knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DefinitionStatus {
    /// Its name.
    pub name: String,
    /// How it stands.
    pub state: DefinitionState,
}

impl DefinitionStatus {
    /// Whether there is nothing left to do.
    pub(super) fn is_done(&self) -> bool {
        matches!(self.state, DefinitionState::Established | DefinitionState::Newer(_))
    }
}

/// What the actor that brings definitions can be told.
pub enum DefinitionsMsg {
    /// Show all of them.
    Show(Reply<Vec<DefinitionStatus>>),
    /// Answered once the server serves all of them.
    AwaitEstablished(Reply<()>),
}

impl Message for DefinitionsMsg {
    fn kind(&self) -> &'static str {
        match self {
            Self::Show(_) => "Show",
            Self::AwaitEstablished(_) => "AwaitEstablished",
        }
    }

    fn lane(&self) -> Lane {
        Lane::Request
    }
}
