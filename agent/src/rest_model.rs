//! Shapes of the REST API (Cilium's `/v1`) that its clients and its server both speak.
//!
//! Unknown members are ignored when read and empty ones left out when written, so that
//! neighbouring versions understand each other.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use volvox_actors::model::{Addresses, Mac};

/// Body of `PUT` and `PATCH /endpoint/{id}`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct EndpointChangeRequest {
    /// The endpoint's number; 0 lets the agent choose.
    pub id: u16,
    /// The container's identifier.
    #[serde(skip_serializing_if = "is_default")]
    pub container_id: String,
    /// The container's name, if it has one.
    #[serde(skip_serializing_if = "is_default")]
    pub container_name: String,
    /// The interface's name inside the container.
    #[serde(skip_serializing_if = "is_default")]
    pub container_interface_name: String,
    /// File that names the container's network namespace.
    #[serde(skip_serializing_if = "is_default")]
    pub container_netns_path: String,
    /// Cookie of that namespace, decimal.
    #[serde(skip_serializing_if = "is_default")]
    pub netns_cookie: String,
    /// The host side's name.
    #[serde(skip_serializing_if = "is_default")]
    pub interface_name: String,
    /// The host side's number.
    #[serde(skip_serializing_if = "is_default")]
    pub interface_index: u32,
    /// Number of the interface below, 0 if none.
    #[serde(skip_serializing_if = "is_default")]
    pub parent_interface_index: u32,
    /// The container's Ethernet address.
    #[serde(skip_serializing_if = "is_default")]
    pub mac: Mac,
    /// The host side's Ethernet address.
    #[serde(skip_serializing_if = "is_default")]
    pub host_mac: Mac,
    /// Its addresses, allocated before.
    pub addressing: AddressPair,
    /// Kubernetes namespace.
    #[serde(rename = "k8s-namespace", skip_serializing_if = "is_default")]
    pub k8s_namespace: String,
    /// Kubernetes pod name.
    #[serde(rename = "k8s-pod-name", skip_serializing_if = "is_default")]
    pub k8s_pod_name: String,
    /// Kubernetes pod UID.
    #[serde(rename = "k8s-uid", skip_serializing_if = "is_default")]
    pub k8s_uid: String,
    /// Labels, each `source:key=value`.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "null_is_default")]
    pub labels: Vec<String>,
    /// State wanted; `waiting-for-identity` for a new endpoint.
    #[serde(skip_serializing_if = "is_default")]
    pub state: String,
    /// Whether the answer waits until the datapath is in place.
    pub sync_build_endpoint: bool,
    /// Cilium's datapath configuration object, kept as it comes.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub datapath_configuration: Value,
    /// Cilium's properties object, kept as it comes.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub properties: Value,
}

/// At most one address of each family, and where each came from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct AddressPair {
    /// IPv4 address.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "empty_is_none")]
    pub ipv4: Option<Ipv4Addr>,
    /// Pool of the IPv4 address.
    #[serde(skip_serializing_if = "is_default")]
    pub ipv4_pool_name: String,
    /// Name of the timer after which an unclaimed IPv4 address returns to its pool.
    #[serde(skip_serializing_if = "is_default")]
    pub ipv4_expiration_uuid: String,
    /// IPv6 address.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "empty_is_none")]
    pub ipv6: Option<Ipv6Addr>,
    /// Pool of the IPv6 address.
    #[serde(skip_serializing_if = "is_default")]
    pub ipv6_pool_name: String,
    /// Name of the timer after which an unclaimed IPv6 address returns to its pool.
    #[serde(skip_serializing_if = "is_default")]
    pub ipv6_expiration_uuid: String,
}

impl AddressPair {
    /// The addresses alone.
    pub fn addresses(&self) -> Addresses {
        Addresses { ipv4: self.ipv4, ipv6: self.ipv6 }
    }
}

/// Body of `DELETE /endpoint`, and of an entry of the delete queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct EndpointBatchDeleteRequest {
    /// Every endpoint of this container is to go.
    pub container_id: String,
}

/// Answer to `POST /ipam`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct IpamResponse {
    /// What was allocated.
    pub address: AddressPair,
    /// The node's own addresses.
    pub host_addressing: NodeAddressing,
}

/// The node's addresses in the pods' network; the pods' routers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct NodeAddressing {
    /// IPv4.
    #[serde(skip_serializing_if = "is_default")]
    pub ipv4: Option<NodeAddressingElement>,
    /// IPv6.
    #[serde(skip_serializing_if = "is_default")]
    pub ipv6: Option<NodeAddressingElement>,
}

impl NodeAddressing {
    /// The routers of the families that are enabled.
    pub fn routers(&self) -> impl Iterator<Item = IpAddr> {
        [&self.ipv4, &self.ipv6]
            .into_iter()
            .flatten()
            .filter(|one| one.enabled)
            .filter_map(|one| one.ip)
    }
}

/// The node's addressing of one family.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct NodeAddressingElement {
    /// Whether endpoints get addresses of this family.
    pub enabled: bool,
    /// The router's address.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "empty_is_none")]
    pub ip: Option<IpAddr>,
    /// The range that addresses are allocated from.
    #[serde(skip_serializing_if = "is_default")]
    pub alloc_range: String,
}

/// Answer to `GET /endpoint/{id}/healthz`; each text one of `OK`, `Bootstrap`, `Pending`,
/// `Warning`, `Failure`, `Disabled`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointHealth {
    /// Whether its programs are in place.
    pub bpf: String,
    /// Whether its policy is.
    pub policy: String,
    /// Whether it has an interface.
    pub connected: bool,
    /// All of it together.
    pub overall_health: String,
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

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Cilium writes a list that is not there as null.
fn null_is_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Cilium writes an address that is not there as an empty text.
fn empty_is_none<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: std::str::FromStr<Err: std::fmt::Display>,
{
    let text = Option::<String>::deserialize(deserializer)?.unwrap_or_default();
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|error| serde::de::Error::custom(format!("{text:?}: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_request_reads_back_and_leaves_out_what_is_empty() {
        let request = EndpointChangeRequest {
            container_id: "c0ffee".into(),
            mac: Mac([2, 0, 0, 0, 0, 1]),
            addressing: AddressPair { ipv4: Some([10, 0, 0, 7].into()), ..Default::default() },
            k8s_pod_name: "web".into(),
            sync_build_endpoint: true,
            ..Default::default()
        };
        let text = serde_json::to_string(&request).unwrap();
        assert_eq!(
            text,
            r#"{"id":0,"container-id":"c0ffee","mac":"02:00:00:00:00:01","addressing":{"ipv4":"10.0.0.7"},"k8s-pod-name":"web","sync-build-endpoint":true}"#
        );
        assert_eq!(serde_json::from_str::<EndpointChangeRequest>(&text).unwrap(), request);
    }

    #[test]
    fn an_empty_address_is_none_and_a_wrong_one_is_named() {
        let pair: AddressPair = serde_json::from_str(r#"{"ipv4":"","ipv6":null}"#).unwrap();
        assert_eq!(pair, AddressPair::default());
        let error = serde_json::from_str::<AddressPair>(r#"{"ipv4":"10.0.0.256"}"#).unwrap_err();
        assert!(error.to_string().contains("10.0.0.256"), "{error}");
    }
}
