//! What the owner of the Lease hears of its own questions and timers.

use crate::{
    host::{AskError, Message},
    ports::{ClusterError, Object},
};

/// Answers to the owner of the Lease.
pub(in crate::operator) enum LeadershipAnswer {
    /// Time to look at the Lease.
    Due,
    /// The Lease as it is.
    Looked(Result<Result<Object, ClusterError>, AskError>),
    /// How writing it went.
    Written(Result<Result<(), ClusterError>, AskError>),
    /// The renewal of that number has to be followed by another one by now.
    Deadline(u64),
}

impl Message for LeadershipAnswer {
    fn kind(&self) -> &'static str {
        match self {
            Self::Due => "Due",
            Self::Looked(_) => "Looked",
            Self::Written(_) => "Written",
            Self::Deadline(_) => "Deadline",
        }
    }
}
