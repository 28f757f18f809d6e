//! Answers that concern identities: what comes of own questions, timers and ports.

use std::sync::Arc;

use super::messages::{Identity, IdentityError};
use crate::{
    host::{AskError, Message, Reply},
    model::{IdentityId, Labels},
    ports::DiskError,
};

/// What the owner of identities hears of its own questions, timers and ports.
pub enum IdentityAnswer {
    /// The number that the cluster gave these labels.
    Allocated {
        /// The labels.
        labels: Arc<Labels>,
        /// The number that they had before.
        before: Option<IdentityId>,
        /// Who wants to know.
        reply: Reply<Result<Identity, IdentityError>>,
        /// The number.
        answer: Result<IdentityId, AskError>,
    },
    /// The disk's answer to a write.
    Stored(Result<Result<(), DiskError>, AskError>),
}

impl Message for IdentityAnswer {
    fn kind(&self) -> &'static str {
        match self {
            Self::Allocated { .. } => "Allocated",
            Self::Stored(_) => "Stored",
        }
    }
}
