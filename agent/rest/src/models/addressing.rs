//! Shapes of addresses: an endpoint's, the answer of who hands them out, and the node's own.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Serialize};
use volvox_actors::model::Addresses;

use super::{empty_is_none, is_default};

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

/// Answer to `POST /ipam`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct IpamResponse {
    /// What was allocated.
    pub address: AddressPair,
    /// The node's own addresses.
    pub host_addressing: NodeAddressing,
    /// The IPv4 address once more, with what a plugin may want beside.
    #[serde(skip_serializing_if = "is_default")]
    pub ipv4: Option<IpamAddressResponse>,
    /// The same of IPv6.
    #[serde(skip_serializing_if = "is_default")]
    pub ipv6: Option<IpamAddressResponse>,
}

/// One address of an answer to `POST /ipam`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct IpamAddressResponse {
    /// Prefixes that are reached without the node's routers.
    pub cidrs: Vec<String>,
    /// Name of the timer after which it returns to its pool unless an endpoint claims it.
    pub expiration_uuid: String,
    /// The router.
    pub gateway: String,
    /// The address.
    pub ip: String,
    /// Whether its packets leave the cluster with this address: as the annotation
    /// `ipam.cilium.io/skip-masquerade` of its pool says. A plugin makes a property of the endpoint of it.
    #[serde(rename = "skip-masquerade", skip_serializing_if = "is_default")]
    pub skip_masquerade: bool,
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
    /// Further ranges, of several pools.
    #[serde(skip_serializing_if = "is_default")]
    pub secondary_alloc_ranges: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_address_is_none_and_a_wrong_one_is_named() {
        let pair: AddressPair = serde_json::from_str(r#"{"ipv4":"","ipv6":null}"#).unwrap();
        assert_eq!(pair, AddressPair::default());
        let error = serde_json::from_str::<AddressPair>(r#"{"ipv4":"10.0.0.256"}"#).unwrap_err();
        assert!(error.to_string().contains("10.0.0.256"), "{error}");
    }
}
