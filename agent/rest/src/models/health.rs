//! Shapes of the API of `health.sock`: how nodes and their health endpoints are reached (`/v1beta`).

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{is_default, null_is_default};

/// Answer to `GET /healthz`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct HealthAnswer {
    /// What the agent says of itself: its own `GET /healthz`.
    pub cilium: Value,
    /// Load of the machine.
    pub system_load: SystemLoad,
    /// Since when the agent runs, as Go writes spans.
    pub uptime: String,
}

/// Load of the machine, as texts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SystemLoad {
    /// In the last minute.
    pub last1min: String,
    /// In the last five minutes.
    pub last5min: String,
    /// In the last quarter of an hour.
    pub last15min: String,
}

/// Answer to `GET /status`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HealthStatus {
    /// This node.
    pub local: LocalNode,
    /// All nodes.
    #[serde(deserialize_with = "null_is_default")]
    pub nodes: Vec<NodeHealthStatus>,
    /// How long a round of probes takes, as Go writes spans.
    #[serde(rename = "probeInterval")]
    pub probe_interval: String,
    /// When the round began.
    pub timestamp: String,
}

/// The node that was asked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LocalNode {
    /// Its name.
    pub name: String,
}

/// A node and how it is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct NodeHealthStatus {
    /// The primary address of its health endpoint, for older clients.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<PathStatus>,
    /// Its health endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health_endpoint: Option<PathsStatus>,
    /// The node itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<PathsStatus>,
    /// Its name.
    pub name: String,
}

/// Addresses and how each is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct PathsStatus {
    /// The first of them.
    pub primary_address: PathStatus,
    /// The others.
    pub secondary_addresses: Option<Vec<PathStatus>>,
}

/// An address and how it is reached; what is not known is absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PathStatus {
    /// By HTTP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http: Option<ConnectivityStatus>,
    /// By ICMP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub icmp: Option<ConnectivityStatus>,
    /// The address.
    pub ip: String,
}

/// What came of a probe.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ConnectivityStatus {
    /// When it was sent last.
    #[serde(rename = "lastProbed")]
    pub last_probed: String,
    /// After how long the answer came, nanoseconds.
    #[serde(skip_serializing_if = "is_default")]
    pub latency: u64,
    /// Why none came; empty if one did.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub status: String,
}

impl PathsStatus {
    /// All of them, the primary one first.
    pub fn all(&self) -> impl Iterator<Item = &PathStatus> {
        [&self.primary_address].into_iter().chain(self.secondary_addresses.iter().flatten())
    }
}

impl PathStatus {
    /// Whether it is reached; what is not known yet counts as reached.
    pub fn is_reached(&self) -> bool {
        [&self.icmp, &self.http].into_iter().flatten().all(|it| it.status.is_empty())
    }
}
