//! What the collector hears of its own questions and timers.

use super::leftovers::Kind;
use crate::{
    host::{AskError, Message},
    ports::{ClusterError, Object},
};

/// Answers to the collector.
pub(in crate::operator) enum CollectorAnswer {
    /// Time to look for what is left over of that kind.
    Due(Kind),
    /// Whether this operator still leads.
    Confirmed(Result<bool, AskError>),
    /// The pod or Node that the next one belongs to.
    Looked(Result<Result<Object, ClusterError>, AskError>),
    /// How the write went.
    Written(Result<Result<(), ClusterError>, AskError>),
}

impl Message for CollectorAnswer {
    fn kind(&self) -> &'static str {
        match self {
            Self::Due(_) => "Due",
            Self::Confirmed(_) => "Confirmed",
            Self::Looked(_) => "Looked",
            Self::Written(_) => "Written",
        }
    }
}
