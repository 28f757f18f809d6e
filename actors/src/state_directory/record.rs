//! The record of an endpoint on disk: its fields, and how its JSON form is read and written.

use std::{collections::BTreeMap, fmt::Display, str::FromStr, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::{Map, Value};

use super::{StateError, seal};
use crate::{
    model::{EndpointId, EndpointKind, IdentityId, Labels, Mac, NamedPorts},
    ports::HOST_DEVICE,
};

/// What is kept on disk of an endpoint; the fields and their names in the file are Cilium 1.19's.
///
/// Unknown fields are kept, so that another agent's record survives being rewritten.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct EndpointRecord {
    /// Its number.
    #[serde(rename = "ID")]
    pub id: EndpointId,
    /// Name that the container runtime gave.
    pub container_name: String,
    /// The container's (sandbox's) identifier.
    #[serde(rename = "dockerID")]
    pub container_id: String,
    /// Path of its network namespace.
    pub container_netns_path: String,
    /// Docker's network; empty with CNI.
    #[serde(rename = "DockerNetworkID")]
    pub docker_network_id: String,
    /// Docker's endpoint; empty with CNI.
    #[serde(rename = "DockerEndpointID")]
    pub docker_endpoint_id: String,
    /// Host-side interface's name.
    #[serde(rename = "IfName")]
    pub ifname: String,
    /// Host-side interface's number.
    #[serde(rename = "IfIndex")]
    pub ifindex: u32,
    /// Interface below, 0 if none.
    #[serde(rename = "ParentIfIndex")]
    pub parent_ifindex: u32,
    /// The interface's name inside the container.
    #[serde(rename = "ContainerIfName")]
    pub container_ifname: String,
    /// Whether it is found only by its attachment, not by its container or pod.
    pub disable_legacy_identifiers: bool,
    /// All its labels, sorted by their use.
    #[serde(rename = "OpLabels")]
    pub labels: OperatorLabels,
    /// Its Ethernet address.
    #[serde(rename = "LXCMAC")]
    pub mac: Mac,
    /// Its IPv6 address.
    #[serde(rename = "IPv6", with = "optional_text")]
    pub ipv6: Option<std::net::Ipv6Addr>,
    /// Pool of its IPv6 address.
    #[serde(rename = "IPv6IPAMPool")]
    pub ipv6_pool: String,
    /// Its IPv4 address.
    #[serde(rename = "IPv4", with = "optional_text")]
    pub ipv4: Option<std::net::Ipv4Addr>,
    /// Pool of its IPv4 address.
    #[serde(rename = "IPv4IPAMPool")]
    pub ipv4_pool: String,
    /// The host side's Ethernet address.
    #[serde(rename = "NodeMAC")]
    pub node_mac: Mac,
    /// Its identity and the labels that it stands for.
    #[serde(rename = "SecLabel")]
    pub security: SecurityLabels,
    /// Its switches.
    pub options: Options,
    /// Those of its switches that were set for it alone; the others follow the agent's flags. Other
    /// agents pass it over.
    #[serde(rename = "VolvoxOwnOptions", skip_serializing_if = "BTreeMap::is_empty")]
    pub own_options: BTreeMap<String, i64>,
    /// DNS rules, form of older agents.
    #[serde(rename = "DNSRules")]
    pub dns_rules: Map<String, Value>,
    /// DNS rules by port and protocol.
    #[serde(rename = "DNSRulesV2")]
    pub dns_rules_v2: Map<String, Value>,
    /// Names that it looked up.
    #[serde(rename = "DNSHistory")]
    pub dns_history: Vec<Value>,
    /// Names that expired while connections still use them.
    #[serde(rename = "DNSZombies")]
    pub dns_zombies: Map<String, Value>,
    /// Kubernetes pod name.
    #[serde(rename = "K8sPodName")]
    pub pod_name: String,
    /// Kubernetes namespace.
    #[serde(rename = "K8sNamespace")]
    pub namespace: String,
    /// Kubernetes pod UID.
    #[serde(rename = "K8sUID")]
    pub pod_uid: String,
    /// How the CNI plugin wants its datapath.
    pub datapath_configuration: Map<String, Value>,
    /// UID of its `CiliumEndpoint` object.
    #[serde(rename = "CiliumEndpointUID")]
    pub cilium_endpoint_uid: String,
    /// Further facts, such as being without an interface.
    pub properties: Map<String, Value>,
    /// Cookie of its network namespace, 0 if not known.
    pub netns_cookie: u64,
    /// Names of its pod's ports, each with protocol and number; a field of ours.
    #[serde(skip_serializing_if = "NamedPorts::is_empty")]
    pub named_ports: NamedPorts,
    /// Which of our writings it is, from 1; 0 is another agent's record, which has no checksum.
    #[serde(skip)]
    pub generation: u32,
    /// Fields of other agents.
    #[serde(flatten)]
    pub foreign: BTreeMap<String, Value>,
}

/// An endpoint's labels by their use.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct OperatorLabels {
    /// Added by an operator.
    #[serde(deserialize_with = "null_is_empty")]
    pub custom: Labels,
    /// From the orchestrator; they make the identity.
    #[serde(deserialize_with = "null_is_empty")]
    pub orchestration_identity: Labels,
    /// Taken out of the identity by an operator.
    #[serde(deserialize_with = "null_is_empty")]
    pub disabled: Labels,
    /// From the orchestrator, for people only.
    #[serde(deserialize_with = "null_is_empty")]
    pub orchestration_info: Labels,
}

/// An identity's number and its labels, as they were when the record was written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SecurityLabels {
    /// The number.
    pub id: IdentityId,
    /// The labels.
    #[serde(default, deserialize_with = "null_is_empty")]
    pub labels: Labels,
}

impl Default for SecurityLabels {
    /// A record without an identity is that of an endpoint whose labels are not known yet.
    fn default() -> Self {
        Self { id: IdentityId::INIT, labels: Labels::reserved("init") }
    }
}

/// An endpoint's switches by name, 0 is off.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Options {
    /// The switches.
    #[serde(deserialize_with = "null_is_empty")]
    pub map: Arc<BTreeMap<String, i64>>,
}

impl EndpointRecord {
    /// The kind of the endpoint, whoever wrote this.
    pub fn kind(&self) -> EndpointKind {
        let OperatorLabels { orchestration_identity, .. } = &self.labels;
        let labels = [&self.security.labels, orchestration_identity];
        let named = self.ifname == HOST_DEVICE;
        let is = |name| labels.iter().any(|labels| labels.has_reserved(name));
        match (named || is("host"), is("health")) {
            (true, _) => EndpointKind::Host,
            (false, true) => EndpointKind::Health,
            (false, false) => EndpointKind::Pod,
        }
    }

    /// The content of `ep_config.json`.
    pub fn to_json(&self) -> Vec<u8> {
        seal::seal(self, self.generation)
    }

    /// Reads `ep_config.json`; `file` names it in errors.
    pub fn from_json(file: &str, bytes: &[u8]) -> Result<Self, StateError> {
        let (mut record, stamp): (Self, _) = seal::open(file, bytes)?;
        record.generation = stamp.map_or(0, |stamp| stamp.generation);
        seal::drop_stamp(&mut record.foreign);
        if record.id.0 == 0 {
            return Err(StateError::Field {
                file: file.to_owned(),
                field: "ID".to_owned(),
                cause: "an endpoint's number is 1 to 65535".to_owned(),
            });
        }
        Ok(record)
    }
}

/// A missing address is an empty text.
mod optional_text {
    use super::*;

    pub(super) fn serialize<T: Display, S: Serializer>(
        value: &Option<T>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => serializer.collect_str(value),
            None => serializer.serialize_str(""),
        }
    }

    pub(super) fn deserialize<'de, T: FromStr<Err: Display>, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<T>, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text.is_empty() {
            return Ok(None);
        }
        text.parse().map(Some).map_err(|error| de::Error::custom(format!("{text:?}: {error}")))
    }
}

/// `null` is what Go programs write for an empty map.
fn null_is_empty<'de, T: Default + Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}
