//! Shape of the agent's configuration, in `GET` and `PATCH /config`.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{NodeAddressing, OptionTexts};

/// Answer to `GET /config`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Configuration {
    /// What its user wants.
    pub spec: ConfigurationSpec,
    /// What is.
    pub status: ConfigurationStatus,
}

/// What can be set while the agent runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct ConfigurationSpec {
    /// Options by name.
    pub options: OptionTexts,
    /// `default`, `always` or `never`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub policy_enforcement: String,
}

/// How the agent is set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConfigurationStatus {
    /// Largest offloaded packets, bytes.
    #[serde(rename = "GROIPv4MaxSize")]
    pub gro_ipv4_max_size: u32,
    /// The same for IPv6.
    #[serde(rename = "GROMaxSize")]
    pub gro_max_size: u32,
    /// The same on sending.
    #[serde(rename = "GSOIPv4MaxSize")]
    pub gso_ipv4_max_size: u32,
    /// The same on sending IPv6.
    #[serde(rename = "GSOMaxSize")]
    pub gso_max_size: u32,
    /// The node's addresses and pools.
    pub addressing: NodeAddressing,
    /// Every setting, by Cilium's names where it has them.
    pub daemon_configuration_map: Map<String, Value>,
    /// How pods are attached: `veth`.
    pub datapath_mode: String,
    /// Maximum transmission unit of the node's devices, bytes.
    #[serde(rename = "deviceMTU")]
    pub device_mtu: u32,
    /// Who chooses the pool.
    #[serde(rename = "ipam-mode")]
    pub ipam_mode: String,
    /// Where identities are agreed on.
    pub kvstore_configuration: KvstoreConfiguration,
    /// Families whose traffic leaves with the node's address.
    pub masquerade_protocols: Map<String, Value>,
    /// What can be set, as it is set.
    pub realized: ConfigurationSpec,
    /// The same of what reaches other nodes: pods' interfaces have it, bytes.
    #[serde(rename = "routeMTU")]
    pub route_mtu: u32,
}

/// Where identities are agreed on; empty if within the agent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct KvstoreConfiguration {
    /// Its options.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub options: Map<String, Value>,
    /// Its kind.
    #[serde(rename = "type", skip_serializing_if = "String::is_empty")]
    pub kind: String,
}
