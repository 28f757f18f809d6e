//! Local identities for the labels of other nodes: which number stands for which labels, and
//! which of them every policy already knows.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::NodeEntry;
use crate::model::{IdentityId, IdentityScope, Label, Labels};

/// Numbers of what other nodes are labelled with, as this node alone has them.
#[derive(Debug, Default)]
pub(super) struct NodeIdentities {
    labels: BTreeMap<IdentityId, Arc<Labels>>,
    ids: BTreeMap<Arc<Labels>, IdentityId>,
    /// Those that every policy knows.
    held: BTreeSet<IdentityId>,
}

impl NodeIdentities {
    /// Those of an earlier run, which policies know.
    pub(super) fn inherited(known: &BTreeMap<IdentityId, Labels>) -> Self {
        let mut numbers = Self::default();
        for (&id, labels) in known {
            numbers.insert(id, Arc::new(labels.clone()));
            numbers.held.insert(id);
        }
        numbers
    }

    fn insert(&mut self, id: IdentityId, labels: Arc<Labels>) {
        self.ids.insert(Arc::clone(&labels), id);
        self.labels.insert(id, labels);
    }

    /// The number of a node's labels; none if it has none.
    pub(super) fn of(&mut self, node: &NodeEntry) -> Option<IdentityId> {
        if node.labels.is_empty() {
            return None;
        }
        let labels = node.labels.iter().map(|(key, value)| Label::new("node", key, value));
        let labels = labels.chain([Label::new("reserved", "remote-node", "")]);
        let labels = Arc::new(Labels::from_iter(labels));
        if let Some(&id) = self.ids.get(&labels) {
            return Some(id);
        }
        // One that was given back is not given again before all others were.
        let last =
            self.labels.last_key_value().map_or(IdentityId::MIN_REMOTE_NODE.0, |(id, _)| id.0);
        let id = Some(IdentityId(last + 1)).filter(|id| id.scope() == IdentityScope::RemoteNode);
        let all = IdentityId::MIN_REMOTE_NODE.0 + 1..;
        let mut free = all.map(IdentityId).filter(|id| !self.labels.contains_key(id));
        let id = id.or_else(|| free.next()).filter(|id| id.scope() == IdentityScope::RemoteNode)?;
        self.insert(id, labels);
        Some(id)
    }

    /// Whether an address may have that identity: policies know it.
    pub(super) fn is_known(&self, id: IdentityId) -> bool {
        id.scope() != IdentityScope::RemoteNode || self.held.contains(&id)
    }

    /// These identities with their labels.
    pub(super) fn labels(
        &self,
        ids: impl IntoIterator<Item = IdentityId>,
    ) -> BTreeMap<IdentityId, Arc<Labels>> {
        let known = |id| Some((id, Arc::clone(self.labels.get(&id)?)));
        ids.into_iter().filter_map(known).collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Every policy knows these.
    pub(super) fn learned(&mut self, ids: impl IntoIterator<Item = IdentityId>) {
        self.held.extend(ids);
    }

    /// Those that no address has any more are given up.
    pub(super) fn give_up(&mut self, used: &BTreeSet<IdentityId>) -> Vec<IdentityId> {
        let over: Vec<_> = self.held.difference(used).copied().collect();
        for id in &over {
            self.held.remove(id);
            if let Some(labels) = self.labels.remove(id) {
                self.ids.remove(&labels);
            }
        }
        over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(zone: &str) -> NodeEntry {
        let labels = [("zone".to_owned(), zone.to_owned())].into();
        NodeEntry { labels, ..NodeEntry::default() }
    }

    #[test]
    fn each_set_of_labels_has_a_number_which_is_not_used_again_at_once() {
        let mut numbers = NodeIdentities::default();
        assert_eq!(numbers.of(&NodeEntry::default()), None);
        let [a, b] = ["a", "b"].map(|zone| numbers.of(&node(zone)).unwrap());
        assert!(a != b && a.scope() == IdentityScope::RemoteNode);
        assert_eq!(numbers.of(&node("a")), Some(a));
        let text = numbers.labels([a])[&a].sorted_text();
        assert_eq!(text, "reserved:remote-node=;node:zone=a;");
        assert!(!numbers.is_known(a) && numbers.is_known(IdentityId::REMOTE_NODE));
        numbers.learned([a]);
        assert!(numbers.is_known(a));
        assert_eq!(numbers.give_up(&[].into()), [a]);
        assert!(numbers.of(&node("c")).is_some_and(|c| c > b));
        assert!(numbers.of(&node("a")).is_some_and(|again| again != a));
    }

    #[test]
    fn numbers_stay_over_a_restart() {
        let id = IdentityId(IdentityId::MIN_REMOTE_NODE.0 + 7);
        let labels = Labels::from_iter([
            Label::new("node", "zone", "a"),
            Label::new("reserved", "remote-node", ""),
        ]);
        let mut numbers = NodeIdentities::inherited(&[(id, labels)].into());
        assert_eq!(numbers.of(&node("a")), Some(id));
        assert!(numbers.is_known(id));
    }
}
