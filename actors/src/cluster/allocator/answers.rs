//! Answers that concern the allocation of identities: what comes of own questions, timers and ports.

use std::sync::Arc;

use super::{ClaimError, Found};
use crate::{
    host::{AskError, Message},
    model::{IdentityId, Labels},
};

/// What the allocator of identities hears of its own questions, timers and ports.
pub enum AllocatorAnswer {
    /// The first list is in.
    Listed(Result<(), AskError>),
    /// How a claim for these labels went: whether nobody else was there first.
    Claimed(Arc<Labels>, IdentityId, Result<bool, ClaimError>),
    /// Who else was there for these labels.
    Looked(Arc<Labels>, Result<Found, ClaimError>),
    /// Try again for these labels.
    Again(Arc<Labels>),
}

impl Message for AllocatorAnswer {
    fn kind(&self) -> &'static str {
        match self {
            Self::Looked(..) => "Looked",
            Self::Claimed(..) => "Claimed",
            Self::Listed(_) => "Listed",
            Self::Again(_) => "Again",
        }
    }
}
