//! How a node announces itself in the store: Cilium's JSON, byte for byte.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use base64::{Engine, prelude::BASE64_STANDARD};
use ipnet::{Ipv4Net, Ipv6Net};
use serde::{Deserialize, Serialize};

use super::{NodeEntry, entry::NodeAddress};
use crate::model::{ClusterId, IdentityId, NodeKey};

/// Value of a key below [`NODES`](super::NODES), as Cilium writes it, member for member.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Announced<'a> {
    name: &'a str,
    cluster: &'a str,
    #[serde(rename = "IPAddresses")]
    addresses: &'a [NodeAddress],
    #[serde(rename = "IPv4AllocCIDR")]
    ipv4_pool: Option<Cidr>,
    #[serde(rename = "IPv4SecondaryAllocCIDRs")]
    ipv4_more: Option<()>,
    #[serde(rename = "IPv6AllocCIDR")]
    ipv6_pool: Option<Cidr>,
    #[serde(rename = "IPv6SecondaryAllocCIDRs")]
    ipv6_more: Option<()>,
    #[serde(rename = "IPv4HealthIP")]
    ipv4_health: String,
    #[serde(rename = "IPv6HealthIP")]
    ipv6_health: String,
    #[serde(rename = "IPv4IngressIP")]
    ipv4_ingress: String,
    #[serde(rename = "IPv6IngressIP")]
    ipv6_ingress: String,
    #[serde(rename = "ClusterID")]
    cluster_id: ClusterId,
    source: &'static str,
    encryption_key: u8,
    labels: &'a BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
    node_identity: IdentityId,
    wireguard_pub_key: &'static str,
    #[serde(rename = "BootID")]
    boot_id: &'a str,
}

impl<'a> Announced<'a> {
    /// What this node says of itself.
    pub(super) fn new(
        key: &'a NodeKey,
        cluster_id: ClusterId,
        entry: &'a NodeEntry,
        boot_id: &'a str,
    ) -> Self {
        let text = |ip: Option<IpAddr>| ip.map(|ip| ip.to_string()).unwrap_or_default();
        let NodeEntry { addresses, pools, health, ingress, labels, .. } = entry;
        Self {
            name: &key.name,
            cluster: &key.cluster,
            addresses,
            ipv4_pool: pools.ipv4.map(Cidr::from),
            ipv4_more: None,
            ipv6_pool: pools.ipv6.map(Cidr::from),
            ipv6_more: None,
            ipv4_health: text(health.ipv4.map(Into::into)),
            ipv6_health: text(health.ipv6.map(Into::into)),
            ipv4_ingress: text(ingress.ipv4.map(Into::into)),
            ipv6_ingress: text(ingress.ipv6.map(Into::into)),
            cluster_id,
            source: "local",
            encryption_key: 0,
            labels,
            annotations: BTreeMap::new(),
            node_identity: IdentityId::HOST,
            wireguard_pub_key: "",
            boot_id,
        }
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        // Plain data: serialising it cannot fail.
        serde_json::to_vec(self).unwrap_or_default()
    }
}

/// A prefix, its mask as bytes in base64.
#[derive(Serialize, Deserialize)]
pub(super) struct Cidr {
    #[serde(rename = "IP")]
    ip: IpAddr,
    #[serde(rename = "Mask")]
    mask: String,
}

/// It is no prefix, or none of that family.
pub(super) struct NoPrefix;

impl From<Ipv4Net> for Cidr {
    fn from(prefix: Ipv4Net) -> Self {
        let mask = BASE64_STANDARD.encode(prefix.netmask().octets());
        Self { ip: prefix.network().into(), mask }
    }
}

impl From<Ipv6Net> for Cidr {
    fn from(prefix: Ipv6Net) -> Self {
        let mask = BASE64_STANDARD.encode(prefix.netmask().octets());
        Self { ip: prefix.network().into(), mask }
    }
}

impl TryFrom<Cidr> for Ipv4Net {
    type Error = NoPrefix;

    fn try_from(cidr: Cidr) -> Result<Self, NoPrefix> {
        let IpAddr::V4(ip) = cidr.ip else { return Err(NoPrefix) };
        let mask = BASE64_STANDARD.decode(&cidr.mask).map_err(|_| NoPrefix)?;
        let mask: [u8; 4] = mask.try_into().map_err(|_| NoPrefix)?;
        Self::with_netmask(ip, Ipv4Addr::from(mask)).map_err(|_| NoPrefix)
    }
}

impl TryFrom<Cidr> for Ipv6Net {
    type Error = NoPrefix;

    fn try_from(cidr: Cidr) -> Result<Self, NoPrefix> {
        let IpAddr::V6(ip) = cidr.ip else { return Err(NoPrefix) };
        let mask = BASE64_STANDARD.decode(&cidr.mask).map_err(|_| NoPrefix)?;
        let mask: [u8; 16] = mask.try_into().map_err(|_| NoPrefix)?;
        Self::with_netmask(ip, Ipv6Addr::from(mask)).map_err(|_| NoPrefix)
    }
}
