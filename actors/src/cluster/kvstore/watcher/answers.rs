//! Answers that concern a watched prefix: what comes of own questions, timers and ports.

use crate::{
    host::{AskError, Message},
    ports::{KvError, Listing, WatchEvent},
};

/// What a watcher hears of its own questions, timers and ports.
pub enum WatcherAnswer {
    /// A part of what stands below the prefix, for the list of that number.
    Listed(u64, Result<Result<Listing, KvError>, AskError>),
    /// What the watch of that number tells.
    Seen(u64, WatchEvent),
    /// The watch of that number has said nothing for too long.
    Silent(u64),
    /// The pause is over.
    Retry,
    /// Whether all is written, before the list of that number.
    Canary(u64, Result<Result<Listing, KvError>, AskError>),
}

impl Message for WatcherAnswer {
    fn kind(&self) -> &'static str {
        match self {
            Self::Listed(..) => "Listed",
            Self::Seen(..) => "Seen",
            Self::Silent(_) => "Silent",
            Self::Retry => "Retry",
            Self::Canary(..) => "Canary",
        }
    }
}
