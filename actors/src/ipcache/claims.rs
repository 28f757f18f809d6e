use std::collections::BTreeMap;

use ipnet::IpNet;

use super::IpcacheEntry;

/// How much a source's word counts, most first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Endpoint,
    Node,
    Cluster,
    Policy,
}

fn rank(source: &str) -> Rank {
    match source.split(' ').next() {
        Some("endpoint") => Rank::Endpoint,
        Some("node") => Rank::Node,
        Some(CLUSTER) => Rank::Cluster,
        _ => Rank::Policy,
    }
}

/// Whether an endpoint says so.
pub(super) fn is_endpoint(source: &str) -> bool {
    rank(source) == Rank::Endpoint
}

/// How other nodes, heard of through the store, are called as a source.
pub(crate) const CLUSTER: &str = "cluster";

/// How the policy is called as a source.
pub(crate) const POLICY: &str = "policy";

/// What each source says of each prefix. An endpoint's word counts more than the node's, the
/// node's more than other nodes', theirs more than a policy's; of equals the latest counts.
#[derive(Debug, Default)]
pub(super) struct Claims(BTreeMap<IpNet, Vec<IpcacheEntry>>);

impl Claims {
    /// Notes what a source says; its earlier word on the prefix is gone.
    pub(super) fn put(&mut self, prefix: IpNet, entry: IpcacheEntry) {
        let said = self.0.entry(prefix).or_default();
        said.retain(|other| other.source != entry.source);
        let place = said.partition_point(|other| rank(&other.source) < rank(&entry.source));
        said.insert(place, entry);
    }

    /// Forgets what a source says of the prefix; false if it said nothing.
    pub(super) fn remove(&mut self, prefix: IpNet, source: &str) -> bool {
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
