//! What the actor of one resource shows of itself.

use serde::Serialize;

/// What a source shows of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SourceView {
    /// What it lists and watches.
    pub resource: &'static str,
    /// Whether all its objects have been told once.
    pub synced: bool,
    /// How many there are.
    pub objects: usize,
    /// Everything up to this version was told.
    pub version: Option<String>,
    /// Whether it is being watched.
    pub watching: bool,
    /// How often the server failed, one after the other.
    pub failures: u32,
}
