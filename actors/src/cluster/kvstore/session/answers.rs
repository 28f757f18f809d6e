//! Answers that concern the session with the store: what comes of own questions, timers and ports.

use crate::{
    host::{AskError, Lane, Message, Reply},
    ports::{KvError, LeaseId, Listing, Pair, WatchEvent},
};

/// How a write went.
pub(super) type Committed = Result<Result<bool, KvError>, AskError>;

/// What the session with the store hears of its own questions, timers and ports.
pub enum SessionAnswer {
    /// A lease.
    Granted(Result<Result<LeaseId, KvError>, AskError>),
    /// These announcements are written, or not.
    Written(Vec<Pair>, Committed),
    /// That key is deleted, or was not ours any more.
    Deleted(String, Committed),
    /// How a claim went.
    Claimed {
        /// What was to be announced.
        leased: Vec<Pair>,
        /// The lease that it was bound to.
        lease: LeaseId,
        /// Who asked.
        reply: Reply<Result<bool, KvError>>,
        /// The store's answer.
        answer: Committed,
    },
    /// Time to keep the lease alive.
    Beat,
    /// Whether there is a lease to be kept alive.
    Retained(Result<Result<bool, KvError>, AskError>),
    /// Whether the store has a majority.
    Heard(Result<Result<Listing, KvError>, AskError>),
    /// What the watch over own keys of that number tells.
    Guarded(u64, WatchEvent),
    /// That watch ended, or has said nothing for too long.
    GuardOver(u64),
    /// The pause is over.
    Retry,
}

impl Message for SessionAnswer {
    fn kind(&self) -> &'static str {
        match self {
            Self::Granted(_) => "Granted",
            Self::Written(..) => "Written",
            Self::Deleted(..) => "Deleted",
            Self::Claimed { .. } => "Claimed",
            Self::Beat => "Beat",
            Self::Retained(_) => "Kept",
            Self::Heard(_) => "Heard",
            Self::Guarded(..) => "Guarded",
            Self::GuardOver(_) => "GuardOver",
            Self::Retry => "Retry",
        }
    }

    fn lane(&self) -> Lane {
        // In order: what was said last counts.
        Lane::Request
    }
}
