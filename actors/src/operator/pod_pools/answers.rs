//! What the owner of pools hears of its own questions and timers.

use crate::{
    host::{AskError, Message},
    operator::prefixes::WriteAnswer,
};

/// Answers to the owner of pools.
pub(in crate::operator) enum PodPrefixesAnswer {
    /// Whether this operator leads, and the Lease says what is to be given.
    Confirmed(Result<bool, AskError>),
    /// How writing to the CiliumNode of that name went.
    Written(String, WriteAnswer),
    /// How making the CiliumPodIPPool of that name went.
    Created(String, WriteAnswer),
    /// Time to try again.
    Again,
}

impl Message for PodPrefixesAnswer {
    fn kind(&self) -> &'static str {
        match self {
            Self::Confirmed(_) => "Confirmed",
            Self::Written(..) => "Written",
            Self::Created(..) => "Created",
            Self::Again => "Again",
        }
    }
}
