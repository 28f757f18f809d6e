use std::collections::BTreeMap;

use ipnet::IpNet;

use super::{IpcacheEntry, messages::Source};

/// What each source says of each prefix, what counts most first; of several endpoints the latest
/// counts.
#[derive(Debug, Default)]
pub(super) struct Claims(BTreeMap<IpNet, Vec<IpcacheEntry>>);

impl Claims {
    /// Notes what a source says; its earlier word on the prefix is gone.
    pub(super) fn put(&mut self, prefix: IpNet, entry: IpcacheEntry) {
        let said = self.0.entry(prefix).or_default();
        said.retain(|other| other.source != entry.source);
        let place = said.partition_point(|other| counts_more(other.source, entry.source));
        said.insert(place, entry);
    }

    /// Forgets what a source says of the prefix; false if it said nothing.
    pub(super) fn remove(&mut self, prefix: IpNet, source: Source) -> bool {
        let Some(said) = self.0.get_mut(&prefix) else { return false };
        let before = said.len();
        said.retain(|entry| entry.source != source);
        let removed = said.len() < before;
        if said.is_empty() {
            self.0.remove(&prefix);
        }
        removed
    }

    /// The word that counts.
    pub(super) fn of(&self, prefix: &IpNet) -> Option<&IpcacheEntry> {
        self.0.get(prefix)?.first()
    }

    /// The word that counts, for each prefix.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&IpNet, &IpcacheEntry)> {
        self.0.iter().filter_map(|(prefix, said)| Some((prefix, said.first()?)))
    }
}

/// Whether a source's word counts more than another's, whenever they said it.
fn counts_more(one: Source, other: Source) -> bool {
    let both_endpoints = matches!((one, other), (Source::Endpoint(_), Source::Endpoint(_)));
    !both_endpoints && one < other
}
