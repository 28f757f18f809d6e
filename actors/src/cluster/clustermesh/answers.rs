//! Answers that concern the mesh: what comes of own questions, timers and ports.

use std::collections::BTreeMap;

use crate::{
    host::{Lane, Message},
    ports::Way,
};

/// What the supervisor of other clusters hears of its own questions, timers and ports.
pub enum MeshAnswer {
    /// These are configured now, and no others.
    Configured(BTreeMap<String, Way>),
    /// Time to tell again which there are.
    Again,
}

impl Message for MeshAnswer {
    fn kind(&self) -> &'static str {
        match self {
            Self::Configured(_) => "Configured",
            Self::Again => "Again",
        }
    }

    fn lane(&self) -> Lane {
        // In order: what was said last counts.
        Lane::Request
    }
}
