//! What who marks Nodes hears of its own questions and timers.

use super::known::AskedMark;
use crate::{
    host::{AskError, Message},
    ports::{ClusterError, Object},
};

/// Answers to who marks Nodes.
pub(in crate::operator) enum MarksAnswer {
    /// Whether this operator still leads.
    Confirmed(Result<bool, AskError>),
    /// The pod by which a Node gets a mark.
    Looked(AskedMark, Result<Result<Object, ClusterError>, AskError>),
    /// How a mark of a Node went.
    Written(AskedMark, Result<Result<(), ClusterError>, AskError>),
    /// The pause of that number is over, that of the Node of that name.
    Again(String, u64),
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
