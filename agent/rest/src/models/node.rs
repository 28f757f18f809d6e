//! Shape of nodes, with their addresses and numbers.

use serde::{Deserialize, Serialize};

use super::NodeAddressing;

/// Answer to `GET /cluster/nodes`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ClusterNodes {
    /// Nodes that are known.
    pub nodes_added: Vec<ClusterNode>,
    /// Nodes that went since the last question: always null, as every question is a first one.
    pub nodes_removed: Option<Vec<ClusterNode>>,
    /// This node's name.
    #[serde(rename = "self")]
    pub own: String,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ClusterNode {
    /// Its name.
    pub name: String,
    /// The address that other nodes reach it by.
    pub primary_address: NodeAddressing,
    /// Its other addresses.
    pub secondary_addresses: Vec<SecondaryAddress>,
    /// Where its health endpoint is.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub health_endpoint_address: Option<NodeAddressing>,
    /// Where its ingress proxy is.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ingress_address: Option<NodeAddressing>,
    /// Where it is known from: `local`, `kvstore` or `custom-resource`.
    pub source: String,
}

/// One more address of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct SecondaryAddress {
    /// The address.
    pub ip: String,
    /// Of what kind, by Cilium's names.
    pub address_type: String,
}

/// A node's number and its addresses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeId {
    /// The number.
    pub id: u32,
    /// The addresses.
    pub ips: Vec<String>,
}
