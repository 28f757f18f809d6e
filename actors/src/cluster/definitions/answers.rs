//! Answers that concern definitions: what comes of own questions, timers and ports.

use crate::{
    host::{AskError, Message},
    ports::{ClusterError, Definition},
};

/// What the actor that brings definitions hears of its own questions and timers. Numbers are places
/// on its list.
pub enum DefinitionsAnswer {
    /// What the server has of one.
    Looked(usize, Result<Result<Option<Definition>, ClusterError>, AskError>),
    /// A write of one has ended.
    Written(usize, Result<Result<(), ClusterError>, AskError>),
    /// One may be looked at again.
    Again(usize),
    /// The server was left alone long enough.
    Rested,
}

impl Message for DefinitionsAnswer {
    fn kind(&self) -> &'static str {
        match self {
            Self::Looked(..) => "Looked",
            Self::Written(..) => "Written",
            Self::Again(_) => "Again",
            Self::Rested => "Rested",
        }
    }
}
