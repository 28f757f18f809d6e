//! For the fuzzer: what pairs of the store and objects say of nodes.

use k8s_openapi::api::core::v1::Node;
use serde_json::Value;

use super::NodeEntry;
use crate::{cluster::kvstore::NODES, model::NodeKey, ports::Pair};

/// Reads a pair as a node's.
pub(crate) fn pair(pair: &Pair) {
    if let Some(key) = NodeKey::of_store(&pair.key, NODES, "default") {
        checked(NodeEntry::of_pair(&key, pair));
    }
}

/// Reads an object as a CiliumNode and as a Node.
pub(crate) fn object(name: &str, node: &Node, object: &Value) {
    checked(NodeEntry::of_object(name, object));
    checked(NodeEntry::of_plain_node(name, node));
}

fn checked(read: Result<NodeEntry, super::NodeError>) {
    match read {
        Ok(entry) => assert!(
            entry.addresses.iter().all(|it| !it.ip.is_unspecified()),
            "nobody reaches {:?}",
            entry.addresses
        ),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
