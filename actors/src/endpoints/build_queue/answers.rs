//! Answers that concern build permits: what comes of own questions, timers and ports.

use crate::host::{Absorbed, Message};

/// What the build queue hears of its own questions, timers and ports.
pub enum BuildQueueAnswer {
    /// A permit came back.
    Released,
    /// Time to look who builds for too long.
    Overdue,
}

impl Message for BuildQueueAnswer {
    fn kind(&self) -> &'static str {
        match self {
            Self::Released => "Released",
            Self::Overdue => "Waited",
        }
    }

    fn absorb(&mut self, incoming: Self) -> Absorbed<Self> {
        match (self, incoming) {
            (Self::Released, Self::Released) => Absorbed::Yes,
            (_, incoming) => Absorbed::No(incoming),
        }
    }
}
