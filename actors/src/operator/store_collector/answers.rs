//! What the collector of the kvstore hears of its own questions and timers.

use crate::{
    host::{AskError, Message},
    ports::{KvError, LeaseId, Listing, WatchEvent},
};

/// What comes of a question to the store.
type FromStore<T> = Result<Result<T, KvError>, AskError>;

/// Answers to the collector of the kvstore.
pub(in crate::operator) enum StoreCollectorAnswer {
    /// Time for the heartbeat.
    Beat,
    /// Time to look for what nobody uses.
    Due,
    /// Whether this operator still leads.
    Confirmed(Result<bool, AskError>),
    /// The lease of the heartbeat.
    Granted(FromStore<LeaseId>),
    /// Whether it still is one.
    Retained(FromStore<bool>),
    /// Whether the heartbeat of before was there, and this one is now.
    Beaten(String, FromStore<bool>),
    /// What the watch of that number tells.
    Heard(u64, WatchEvent),
    /// A part of a list.
    Listed(FromStore<Listing>),
    /// Whether the identity of that key was removed.
    Removed(String, FromStore<bool>),
}

impl Message for StoreCollectorAnswer {
    fn kind(&self) -> &'static str {
        match self {
            Self::Beat => "Beat",
            Self::Due => "Due",
            Self::Confirmed(_) => "Confirmed",
            Self::Granted(_) => "Granted",
            Self::Retained(_) => "Retained",
            Self::Beaten(..) => "Beaten",
            Self::Heard(..) => "Heard",
            Self::Listed(_) => "Listed",
            Self::Removed(..) => "Removed",
        }
    }
}
