//! An invariant of a node, and what a check finds that breaks it.

use serde::Serialize;

use super::snapshot::Snapshot;

/// One thing that must be true.
#[derive(Clone, Copy, Debug)]
pub struct Invariant {
    /// Its name.
    pub name: &'static str,
    /// Finds what breaks it.
    pub check: fn(&Snapshot) -> Result<(), Violation>,
}

/// An invariant that does not hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("invariant {invariant:?} does not hold: {}", .found.join("; "))]
pub struct Violation {
    /// Its name.
    pub invariant: &'static str,
    /// All that breaks it.
    pub found: Vec<String>,
}

/// What the findings of a check make of it.
pub(super) fn verdict(
    invariant: &'static str,
    found: impl IntoIterator<Item = String>,
) -> Result<(), Violation> {
    let found: Vec<String> = found.into_iter().collect();
    if found.is_empty() { Ok(()) } else { Err(Violation { invariant, found }) }
}
