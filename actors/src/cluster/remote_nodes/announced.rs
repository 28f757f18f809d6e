//! How a node announces itself in the store: Cilium's JSON, byte for byte.

use std::{collections::BTreeMap, net::IpAddr};

use ipnet::IpNet;
use serde::Serialize;

use super::{NodeEntry, cidr::Cidr, entry::NodeAddress};
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
    ipv4_more: Option<Vec<Cidr>>,
    #[serde(rename = "IPv6AllocCIDR")]
    ipv6_pool: Option<Cidr>,
    #[serde(rename = "IPv6SecondaryAllocCIDRs")]
    ipv6_more: Option<Vec<Cidr>>,
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

/// A list that is `null` where it is empty, as Cilium writes it.
fn some(all: impl Iterator<Item = Cidr>) -> Option<Vec<Cidr>> {
    Some(all.collect::<Vec<_>>()).filter(|all| !all.is_empty())
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
            ipv4_more: some(entry.more_prefixes.iter().filter_map(|it| match it {
                IpNet::V4(it) => Some(Cidr::from(*it)),
                IpNet::V6(_) => None,
            })),
            ipv6_pool: pools.ipv6.map(Cidr::from),
            ipv6_more: some(entry.more_prefixes.iter().filter_map(|it| match it {
                IpNet::V6(it) => Some(Cidr::from(*it)),
                IpNet::V4(_) => None,
            })),
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
