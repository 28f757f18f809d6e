//! What all sources say of one prefix, and whose word counts.

use super::{IpcacheEntry, messages::IpcacheSource};

/// What each source says of a prefix, what counts most first; of several endpoints the latest
/// counts.
#[derive(Debug, Default)]
pub(super) struct PrefixClaims(Vec<IpcacheEntry>);

impl PrefixClaims {
    /// Notes what a source says; its earlier word is gone.
    pub(super) fn put(&mut self, entry: IpcacheEntry) {
        self.0.retain(|other| other.source != entry.source);
        let place = self.0.partition_point(|other| counts_more(other.source, entry.source));
        self.0.reserve_exact(1);
        self.0.insert(place, entry);
    }

    /// Forgets what a source says; false if it said nothing.
    pub(super) fn remove(&mut self, source: IpcacheSource) -> bool {
        let before = self.0.len();
        self.0.retain(|entry| entry.source != source);
        self.0.len() < before
    }

    /// The word that counts.
    pub(super) fn first(&self) -> Option<&IpcacheEntry> {
        self.0.first()
    }
}

/// Whether a source's word counts more than another's, whenever they said it.
fn counts_more(one: IpcacheSource, other: IpcacheSource) -> bool {
    let both_endpoints =
        matches!((one, other), (IpcacheSource::Endpoint(_), IpcacheSource::Endpoint(_)));
    !both_endpoints && one < other
}
