//! Shape of the agent's status, in the answer to `GET /healthz`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{ClusterMeshStatus, is_default};

/// Answer to `GET /healthz`. Parts that this agent does not have are absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
#[allow(missing_docs, reason = "the members are named for what they are")]
pub struct StatusAnswer {
    pub cilium: Status,
    pub cluster: ClusterStatus,
    /// Probes that do not answer, and since when: what they said before may not be true any more.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub stale: BTreeMap<String, String>,
    #[serde(flatten)]
    pub details: Option<StatusDetails>,
}

/// How something is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Status {
    /// `Ok`, `Warning`, `Failure` or `Disabled`.
    pub state: String,
    /// Why.
    #[serde(skip_serializing_if = "is_default")]
    pub msg: String,
}

impl Status {
    /// Of the agent: its version, and what is wrong with it first of all, if anything is.
    pub fn version_and_trouble(&self) -> (&str, &str) {
        self.msg.split_once("; ").unwrap_or((&self.msg, ""))
    }
}

/// What a brief answer leaves out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
#[allow(missing_docs, reason = "the members are named for what they are")]
pub struct StatusDetails {
    pub attach_mode: String,
    pub bpf_maps: BpfMapStatus,
    pub clock_source: Mode,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_mesh: Option<ClusterMeshStatus>,
    pub cni_chaining: Mode,
    pub cni_file: Status,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container_runtime: Option<Status>,
    /// Actors do what controllers did; those that something is wrong with are shown as such.
    pub controllers: Vec<Controller>,
    pub datapath_mode: String,
    pub encryption: Mode,
    pub host_firewall: Mode,
    pub hubble: Status,
    pub identity_range: IdentityRange,
    pub ipam: IpamStatus,
    pub kube_proxy_replacement: KubeProxyReplacement,
    pub kubernetes: KubernetesStatus,
    pub kvstore: Status,
    pub masquerading: Map<String, Value>,
    pub routing: RoutingStatus,
}

/// Something that failed, and is tried or looked at again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Controller {
    /// What it is.
    pub name: String,
    /// How it fares.
    pub status: ControllerStatus,
}

/// How that fares.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct ControllerStatus {
    /// How often it failed in a row.
    pub consecutive_failure_count: u64,
    /// What is wrong, and what to do.
    pub last_failure_msg: String,
}

/// One part that has only a mode.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Mode {
    /// The mode.
    pub mode: String,
}

impl Mode {
    /// A mode.
    pub fn new(mode: &str) -> Self {
        Self { mode: mode.to_owned() }
    }
}

/// The cluster, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClusterStatus {
    /// How who probes nodes is; absent where nobody does.
    #[serde(rename = "ciliumHealth", skip_serializing_if = "Option::is_none")]
    pub health: Option<Status>,
    /// Other nodes: null, as none are known.
    pub nodes: Option<Vec<Value>>,
    /// This node's name; absent from a brief answer.
    #[serde(rename = "self", skip_serializing_if = "String::is_empty")]
    pub own: String,
}

/// What kube-proxy would do otherwise.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct KubeProxyReplacement {
    /// The node's devices by which services are reached, with their addresses.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub device_list: Vec<NodeDevice>,
    /// Their names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<String>,
    /// The one that leads to other nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub direct_routing_device: Option<String>,
    /// What is served, and how.
    pub features: Value,
    /// `True` or `False`.
    pub mode: String,
}

/// A device of the node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeDevice {
    /// Its addresses.
    pub ip: Vec<String>,
    /// Its name.
    pub name: String,
}

/// Sizes of the maps.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct BpfMapStatus {
    /// Share of the memory by which those are sized that no flag sizes.
    pub dynamic_size_ratio: f64,
    /// The maps.
    pub maps: Vec<BpfMapSize>,
}

/// The size of one map.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BpfMapSize {
    /// Its name.
    pub name: String,
    /// How many rows it takes.
    pub size: u32,
}

/// Numbers for identities of label sets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct IdentityRange {
    /// The last.
    pub max_identity: u32,
    /// The first.
    pub min_identity: u32,
}

/// Addresses that are handed out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct IpamStatus {
    /// Each address and its owner.
    pub allocations: BTreeMap<String, String>,
    /// IPv4 addresses; null if there is none.
    pub ipv4: Option<Vec<String>>,
    /// IPv6 addresses; null if there is none.
    pub ipv6: Option<Vec<String>>,
    /// How many of how many.
    pub status: String,
}

/// The way to Kubernetes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct KubernetesStatus {
    /// Interfaces in use: null without Kubernetes.
    pub k8s_api_versions: Option<Vec<String>>,
    /// The state.
    pub state: String,
}

/// How packets find their way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct RoutingStatus {
    /// To other nodes: `Native`, `Tunnel [vxlan]`.
    pub inter_host_routing_mode: String,
    /// Within the node: `BPF`.
    pub intra_host_routing_mode: String,
}
