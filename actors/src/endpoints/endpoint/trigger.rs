//! Why an endpoint is built, and what is desired of it besides what it is at.

use std::sync::Arc;

use super::{
    Brought, Level,
    messages::{BuiltReply, Creator},
};
use crate::{
    endpoints::build_queue::Class,
    host::TimerId,
    mutants::{Mutant, mutated},
};

/// Why an endpoint is built, and how much of it.
pub(super) struct Trigger {
    pub(super) level: Level,
    pub(super) reason: Arc<str>,
    pub(super) waiting: Vec<BuiltReply>,
    pub(super) class: Class,
    /// What came with it. Of two triggers that are one, each may stand for what the other does not
    /// know.
    pub(super) brought: Option<Brought>,
    /// Whether the kernel is read anew first.
    pub(super) looks: bool,
}

impl Trigger {
    pub(super) fn new(level: Level, reason: Arc<str>, waiting: Vec<BuiltReply>) -> Self {
        Self { level, reason, waiting, class: Class::Mass, brought: None, looks: false }
    }

    pub(super) fn create() -> Self {
        let reason = Arc::from("create endpoint from API PUT");
        Self { class: Class::NewPod, ..Self::new(Level::Rewrite, reason, Vec::new()) }
    }

    pub(super) fn restore() -> Self {
        Self::new(Level::Rewrite, Arc::from("syncing state to host"), Vec::new())
    }

    /// Makes one trigger of two: at the higher level, for everyone who waits.
    pub(super) fn merge(&mut self, other: Self) {
        if !mutated(Mutant::LevelNotRaised) {
            self.level = self.level.max(other.level);
        }
        self.class = self.class.min(other.class);
        self.looks |= other.looks;
        self.brought = None;
        self.waiting.extend(other.waiting);
    }
}

/// What is desired of an endpoint besides what it is at.
#[derive(Default)]
pub(super) struct PendingRequests {
    /// What was triggered while a build ran.
    pub(super) stored: Option<Trigger>,
    /// Who had it made, and is not answered yet.
    pub(super) creator: Option<Creator>,
    /// What a failed build was to do; the next one does it.
    pub(super) owed: Option<Level>,
    /// When what failed is tried again.
    pub(super) retry: Option<TimerId>,
}
