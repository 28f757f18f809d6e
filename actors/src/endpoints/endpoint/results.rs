//! What came of the builds of an endpoint.

use std::sync::Arc;

use super::BuildCounts;
use crate::model::drift::Drift;

/// What came of the last build.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum BuildOutcome {
    /// The kernel does what is desired.
    #[default]
    Whole,
    /// Its policy map has no room for all of its policy. Stays so when a build fails: what was in
    /// force before is so still.
    Short,
    /// The kernel does what it did before.
    Failed,
}

impl BuildOutcome {
    /// Whether the kernel does not do all that is desired.
    pub(super) fn is_failing(self) -> bool {
        self != Self::Whole
    }
}

/// What came of the builds so far.
pub(super) struct Results {
    pub(super) outcome: BuildOutcome,
    /// The kernel answered the last step by a refusal.
    pub(super) refused: bool,
    pub(super) counts: BuildCounts,
    pub(super) last_error: Option<Arc<str>>,
    /// What somebody else had changed in the kernel, and the last build put right.
    pub(super) drift: Arc<[Drift]>,
}

impl Default for Results {
    fn default() -> Self {
        Self {
            outcome: BuildOutcome::default(),
            refused: false,
            counts: BuildCounts::default(),
            last_error: None,
            drift: Arc::from([]),
        }
    }
}
