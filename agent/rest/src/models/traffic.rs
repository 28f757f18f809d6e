//! Shape of `GET /volvox/traffic`: what becomes of packets from one end to another, and why.

use serde::{Deserialize, Serialize};
use volvox_actors::policy::rules::PacketExplained;

/// What becomes of packets between two ends.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct Traffic {
    /// `allowed`, `denied`, `mixed` if it depends on the backend, `no-backend`.
    pub verdict: String,
    /// Who sends.
    pub from: TrafficEnd,
    /// What was asked for.
    pub to: String,
    /// The service, if that is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<TrafficService>,
    /// To each that may receive.
    pub paths: Vec<TrafficPath>,
}

/// One end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct TrafficEnd {
    /// Its pod, or else its address.
    pub name: String,
    /// `pod`, `node`, `remote-pod`, `remote-node`, `outside`.
    pub kind: String,
    /// Its endpoint on this node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<u16>,
    /// Its address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The prefix by which the ipcache knows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// Its identity.
    pub identity: u32,
    /// The labels of that.
    pub labels: Vec<String>,
    /// The node that it is on, if it is another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
}

/// A service that was asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct TrafficService {
    /// `namespace/name`.
    pub name: String,
    /// Where it is reached.
    pub frontend: String,
    /// Backends that get no new connections, with their state.
    pub unused: Vec<String>,
}

/// What becomes of packets to one receiver.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct TrafficPath {
    /// `allowed` or `denied`.
    pub verdict: String,
    /// Who receives.
    pub to: TrafficEnd,
    /// At which port; of ICMP the type.
    pub port: u16,
    /// By which protocol, its number.
    pub protocol: u8,
    /// What the sender's policy says.
    pub egress: TrafficSide,
    /// What the receiver's policy says.
    pub ingress: TrafficSide,
}

/// One end's policy, or why it is not asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TrafficSide {
    /// What it says.
    Judged(Box<PacketExplained>),
    /// It is not asked here, and why.
    NotHere(String),
}

impl Default for TrafficSide {
    fn default() -> Self {
        Self::NotHere(String::new())
    }
}
