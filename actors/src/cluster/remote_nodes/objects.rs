//! Of which kind the objects are that name a node: what its CiliumNode says counts, its Node's word
//! where it has none.

use std::collections::{BTreeMap, BTreeSet};

use super::NodeEntry;
use crate::model::NodeKey;

/// By which objects nodes are known.
#[derive(Debug, Default)]
pub(super) struct NodeObjects {
    /// Nodes that have a CiliumNode.
    cilium: BTreeSet<NodeKey>,
    /// What Nodes say.
    plain: BTreeMap<NodeKey, NodeEntry>,
}

impl NodeObjects {
    /// Whether a node has a CiliumNode now.
    pub(super) fn set(&mut self, key: &NodeKey, is_there: bool) {
        match is_there {
            true => drop(self.cilium.insert(key.clone())),
            false => drop(self.cilium.remove(key)),
        }
    }

    /// What a Node says now; whether that counts.
    pub(super) fn set_plain(&mut self, key: &NodeKey, entry: Option<NodeEntry>) -> bool {
        match entry {
            Some(entry) => drop(self.plain.insert(key.clone(), entry)),
            None => drop(self.plain.remove(key)),
        }
        !self.cilium.contains(key)
    }

    /// Nodes that have no CiliumNode.
    pub(super) fn only_plain(&self) -> impl Iterator<Item = &NodeKey> {
        self.plain.keys().filter(|key| !self.cilium.contains(*key))
    }

    /// What a node's Node says.
    pub(super) fn plain(&self, key: &NodeKey) -> Option<NodeEntry> {
        self.plain.get(key).cloned()
    }
}
