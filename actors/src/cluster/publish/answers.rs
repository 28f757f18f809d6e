//! Answers that concern the publisher: what comes of own questions, timers and ports.

use std::sync::Arc;

use super::{
    item::Item,
    messages::{PublishResult, WriteAttempt},
};
use crate::{
    endpoints::endpoint::EndpointView,
    host::{AskError, Message},
};

/// What the publisher hears of its own questions, timers and ports.
pub enum PublisherAnswer {
    /// Restored endpoints and the node are programmed; whether endpoints were restored at all.
    Programmed(Result<bool, AskError>),
    /// All endpoints of this node.
    All(Result<Vec<Arc<EndpointView>>, AskError>),
    /// A write has ended.
    Written(WriteAttempt, PublishResult),
    /// The server was left alone long enough.
    Rested,
    /// What failed may be tried again.
    Retry(Item),
}

impl Message for PublisherAnswer {
    fn kind(&self) -> &'static str {
        match self {
            Self::Programmed(_) => "Programmed",
            Self::All(_) => "All",
            Self::Written(..) => "Written",
            Self::Rested => "Rested",
            Self::Retry(_) => "Retry",
        }
    }
}
