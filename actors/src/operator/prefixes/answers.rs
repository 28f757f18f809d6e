//! What the owner of prefixes hears of its own questions and timers.

use super::writer::WriteAnswer;
use crate::host::{AskError, Message};

/// Answers to the owner of prefixes.
pub(in crate::operator) enum PrefixesAnswer {
    /// Whether the Lease says what is to be given.
    Recorded(Result<bool, AskError>),
    /// How writing to the CiliumNode of that name went.
    Written(String, WriteAnswer),
    /// Time to try again.
    Again,
}

impl Message for PrefixesAnswer {
    fn kind(&self) -> &'static str {
        match self {
            Self::Recorded(_) => "Recorded",
            Self::Written(..) => "Written",
            Self::Again => "Again",
        }
    }
}
