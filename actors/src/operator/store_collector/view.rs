//! What who removes identities of the kvstore shows.

use serde::Serialize;

/// What the collector of the kvstore shows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StoreCollectorView {
    /// Identities that were there at the last look.
    pub known: usize,
    /// Those of them that nobody used.
    pub unused: usize,
    /// Identities that were removed in this life.
    pub removed: u64,
    /// Heartbeats that were written in this life.
    pub beats: u64,
    /// How often the store did not answer, or was another one than before.
    pub lost: u64,
    /// Why, the last time; none since it answers again.
    pub error: Option<String>,
}
