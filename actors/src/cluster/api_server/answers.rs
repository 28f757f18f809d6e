//! Answers that concern the API server's sources: what comes of own questions, timers and ports.

use crate::{
    host::{AskError, Message},
    ports::{ClusterError, Definition, ObjectChange, Page},
};

/// What the supervisor of sources hears of its own questions and timers.
pub enum ClusterAnswer {
    /// Time to ask the server who it is, if nobody has asked since the question of that number.
    Ask(u64),
    /// Its answer.
    Asked(Result<Result<Page, ClusterError>, AskError>),

    /// A source has been listed, or it is asked again.
    Awaited(usize, Result<(), AskError>),
    /// The first policies are in force, or some endpoint takes too long.
    InForce(Result<(), AskError>),
    /// Time to hand on what a full mailbox did not take.
    Retell,
    /// Sources should be synced by now.
    Late,
}

impl Message for ClusterAnswer {
    fn kind(&self) -> &'static str {
        match self {
            Self::Ask(_) => "Ask",
            Self::Asked(_) => "Asked",
            Self::Awaited(..) => "Awaited",
            Self::InForce(_) => "InForce",
            Self::Retell => "Retell",
            Self::Late => "Late",
        }
    }
}

/// What a source hears of its own questions, timers and port.
pub(super) enum SourceAnswer {
    /// A page of its list.
    Listed(Result<Result<Page, ClusterError>, AskError>),
    /// The definition of its resource, if there is one.
    Defined {
        /// How the server refused to list the resource, if that is why it was asked for.
        refusal: Option<ClusterError>,
        /// The definition.
        answer: Result<Result<Option<Definition>, ClusterError>, AskError>,
    },
    /// Its definition, as long as there was none.
    DefinitionListed(Result<Result<Page, ClusterError>, AskError>),
    /// What the watch for it of that number saw.
    DefinitionSeen(u64, Result<Result<Vec<ObjectChange>, ClusterError>, AskError>),
    /// That watch should have ended by now.
    DefinitionSilent(u64),
    /// What the watch of that number saw.
    Seen(u64, Result<Result<Vec<ObjectChange>, ClusterError>, AskError>),
    /// Nothing was said since the word of that number.
    Silent(u64),
    /// The server was left alone long enough.
    Retry,
}

impl Message for SourceAnswer {
    fn kind(&self) -> &'static str {
        match self {
            Self::Listed(_) => "Listed",
            Self::Defined { .. } => "Defined",
            Self::DefinitionListed(_) => "DefinitionListed",
            Self::DefinitionSeen(..) => "DefinitionSeen",
            Self::DefinitionSilent(_) => "DefinitionSilent",
            Self::Seen(..) => "Seen",
            Self::Silent(_) => "Silent",
            Self::Retry => "Retry",
        }
    }
}
