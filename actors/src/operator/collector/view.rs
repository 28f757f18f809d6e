//! What who removes what is left over shows.

use serde::Serialize;

/// What the collector shows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CollectorView {
    /// CiliumEndpoints, CiliumIdentities, CiliumNodes that are there.
    pub known: [usize; 3],
    /// The same that were removed in this life.
    pub removed: [u64; 3],
    /// Identities that were marked, to go if nobody takes them up.
    pub marked: u64,
    /// Writes that failed in this life.
    pub failed: u64,
    /// Why the last one did.
    pub error: Option<String>,
}
