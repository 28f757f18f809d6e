//! What who marks Nodes hears of its own questions and timers.

use super::known::NodeMark;
use crate::{
    host::{AskError, Message},
    ports::{ClusterError, Object},
};

/// Answers to who marks Nodes.
pub(in crate::operator) enum MarksAnswer {
    /// Whether this operator still leads.
    Confirmed(Result<bool, AskError>),
    /// The pod by which the Node of that name gets that mark.
    Looked(String, NodeMark, Result<Result<Object, ClusterError>, AskError>),
    /// How that mark of the Node of that name went.
    Written(String, NodeMark, Result<Result<(), ClusterError>, AskError>),
    /// That Node may get that mark again.
    Again(String, NodeMark),
    /// The server was left alone long enough.
    Rested,
}

impl Message for MarksAnswer {
    fn kind(&self) -> &'static str {
        match self {
            Self::Confirmed(_) => "Confirmed",
            Self::Looked(..) => "Looked",
            Self::Written(..) => "Written",
            Self::Again(..) => "Again",
            Self::Rested => "Rested",
        }
    }
}
