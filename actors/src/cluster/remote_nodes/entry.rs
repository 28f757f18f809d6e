//! A node as others know it, read from the store, a CiliumNode or a Node.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use k8s_openapi::api::core::v1::Node;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::cidr::Cidr;
use crate::{
    cluster::kvstore::NODES,
    endpoints::ipam::Pools,
    model::{Addresses, IdentityId, NodeKey, Tunnel},
    node::local_node::PodCidrs,
    ports::Pair,
};

impl NodeKey {
    /// Its key in the store.
    pub(super) fn in_store(&self) -> String {
        format!("{NODES}{self}")
    }

    /// The node of that cluster that a key below `root` names.
    pub(super) fn of_store(key: &str, root: &str, cluster: &str) -> Option<Self> {
        let name = key.strip_prefix(root)?;
        let is_one = !name.is_empty() && !name.contains('/');
        is_one.then(|| Self { cluster: cluster.to_owned(), name: name.to_owned() })
    }
}

/// An address of a node, with what kind it is by Cilium's names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NodeAddress {
    /// `InternalIP`, `ExternalIP` or `CiliumInternalIP`, the one that its pods route through.
    #[serde(rename = "Type")]
    pub kind: String,
    /// The address.
    #[serde(rename = "IP")]
    pub ip: IpAddr,
}

/// What a node says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeEntry {
    /// Its own addresses.
    pub addresses: Vec<NodeAddress>,
    /// Addresses of its pods.
    pub pools: Pools,
    /// Further prefixes of its pods, of several pools.
    pub more_prefixes: BTreeSet<IpNet>,
    /// Where its health endpoint is.
    pub health: Addresses,
    /// Where its ingress proxy is.
    pub ingress: Addresses,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// The identity of its own addresses, if its labels have one.
    pub identity: Option<IdentityId>,
}

/// What is said of an address of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seat {
    /// Its identity.
    pub identity: IdentityId,
    /// The node to which packets for it go in a tunnel: none is needed to reach a node itself.
    pub tunnel: Tunnel,
}

/// Why something that names a node says nothing of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NodeError {
    /// A key names none of this cluster.
    #[error("kvstore key {0}: it names no node of this cluster; remove it")]
    Key(String),
    /// A value is not what Cilium writes.
    #[error("kvstore key {key}: {cause}; remove it, its node writes it again")]
    Value {
        /// The key.
        key: String,
        /// What is wrong.
        cause: String,
    },
    /// A Node names no address of a node.
    #[error("Node {name}: {cause}; its kubelet mends it")]
    Plain {
        /// Its name.
        name: String,
        /// What is wrong.
        cause: String,
    },
    /// An object names no address of a node.
    #[error("CiliumNode {name}: {cause}; its agent mends it")]
    Object {
        /// Its name.
        name: String,
        /// What is wrong.
        cause: String,
    },
}

/// What of a value of the store is read.
#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct StoredNode {
    name: String,
    cluster: String,
    #[serde(rename = "IPAddresses")]
    addresses: Option<Vec<Value>>,
    #[serde(rename = "IPv4AllocCIDR")]
    ipv4_pool: Option<Cidr>,
    #[serde(rename = "IPv4SecondaryAllocCIDRs")]
    ipv4_more: Option<Vec<Cidr>>,
    #[serde(rename = "IPv6AllocCIDR")]
    ipv6_pool: Option<Cidr>,
    #[serde(rename = "IPv6SecondaryAllocCIDRs")]
    ipv6_more: Option<Vec<Cidr>>,
    #[serde(rename = "IPv4HealthIP")]
    ipv4_health: Option<String>,
    #[serde(rename = "IPv6HealthIP")]
    ipv6_health: Option<String>,
    #[serde(rename = "IPv4IngressIP")]
    ipv4_ingress: Option<String>,
    #[serde(rename = "IPv6IngressIP")]
    ipv6_ingress: Option<String>,
    labels: Option<BTreeMap<String, String>>,
}

impl NodeEntry {
    /// What a pair of the store says of the node that its key names.
    pub(super) fn of_pair(key: &NodeKey, pair: &Pair) -> Result<Self, NodeError> {
        let bad = |cause: String| NodeError::Value { key: pair.key.clone(), cause };
        let said: StoredNode =
            serde_json::from_slice(&pair.value).map_err(|error| bad(error.to_string()))?;
        if (&said.cluster, &said.name) != (&key.cluster, &key.name) {
            return Err(bad(format!("it is about {}/{}", said.cluster, said.name)));
        }
        let all = said.addresses.iter().flatten();
        let addresses =
            all.map(|it| address(&it["Type"], &it["IP"])).collect::<Result<Vec<_>, _>>();
        let both = |ipv4: Option<String>, ipv6: Option<String>| {
            Ok::<_, String>(Addresses { ipv4: some(ipv4)?, ipv6: some(ipv6)? })
        };
        let entry = || {
            Ok(Self {
                addresses: addresses?.into_iter().flatten().collect(),
                pools: Pools {
                    ipv4: said.ipv4_pool.and_then(|it| Ipv4Net::try_from(it).ok()),
                    ipv6: said.ipv6_pool.and_then(|it| Ipv6Net::try_from(it).ok()),
                },
                more_prefixes: {
                    let ipv4 = said
                        .ipv4_more
                        .into_iter()
                        .flatten()
                        .filter_map(|it| Ipv4Net::try_from(it).ok().map(IpNet::from));
                    let ipv6 = said
                        .ipv6_more
                        .into_iter()
                        .flatten()
                        .filter_map(|it| Ipv6Net::try_from(it).ok().map(IpNet::from));
                    ipv4.chain(ipv6).collect()
                },
                health: both(said.ipv4_health, said.ipv6_health)?,
                ingress: both(said.ipv4_ingress, said.ipv6_ingress)?,
                labels: said.labels.unwrap_or_default(),
                identity: None,
            })
        };
        entry().and_then(Self::checked).map_err(bad)
    }

    /// What a CiliumNode says.
    pub(super) fn of_object(name: &str, object: &Value) -> Result<Self, NodeError> {
        let bad = |cause: String| NodeError::Object { name: name.to_owned(), cause };
        let (spec, labels) = (&object["spec"], &object["metadata"]["labels"]);
        let all = spec["addresses"].as_array().into_iter().flatten();
        let addresses =
            all.map(|it| address(&it["type"], &it["ip"])).collect::<Result<Vec<_>, _>>();
        let both = |of: &Value| {
            let text = |name: &str| of[name].as_str().map(str::to_owned);
            Ok::<_, String>(Addresses { ipv4: some(text("ipv4"))?, ipv6: some(text("ipv6"))? })
        };
        let (pools, more_prefixes) = PodCidrs::all_of_cilium_node(object);
        let entry = || {
            Ok(Self {
                addresses: addresses?.into_iter().flatten().collect(),
                pools,
                more_prefixes,
                health: both(&spec["health"])?,
                ingress: both(&spec["ingress"])?,
                labels: texts(labels),
                identity: None,
            })
        };
        entry().and_then(Self::checked).map_err(bad)
    }

    /// What a Node of Kubernetes says, of a node that has no CiliumNode.
    pub(super) fn of_plain_node(name: &str, node: &Node) -> Result<Self, NodeError> {
        let entry = Self {
            addresses: of_node(node),
            pools: PodCidrs::of_node(node, true).pools,
            labels: node.metadata.labels.clone().unwrap_or_default(),
            ..Self::default()
        };
        entry.checked().map_err(|cause| NodeError::Plain { name: name.to_owned(), cause })
    }

    /// Refuses addresses by which no node can be reached from another one.
    fn checked(self) -> Result<Self, String> {
        let nowhere = |ip: &IpAddr| ip.is_loopback() || ip.is_multicast() || ip.is_unspecified();
        let found = self.rows().map(|(prefix, _)| prefix.addr()).find(nowhere);
        match found {
            Some(ip) => Err(format!("{ip} is no address of another node")),
            None => Ok(self),
        }
    }

    /// Its addresses, each with the identity that it has for others. It is reached itself as it is;
    /// what runs on it, and the address that its pods route through, are reached through it.
    pub(super) fn rows(&self) -> impl Iterator<Item = (IpNet, Seat)> {
        let identity = self.identity.unwrap_or(IdentityId::REMOTE_NODE);
        let through = Tunnel::from(self.neighbour().addresses.iter().next());
        let own = self.addresses.iter().map(move |address| {
            let tunnel = if address.kind == KINDS[2] { through } else { Tunnel::NONE };
            (address.ip, Seat { identity, tunnel })
        });
        let of = move |identity| move |ip| (ip, Seat { identity, tunnel: through });
        let health = self.health.iter().map(of(IdentityId::HEALTH));
        let ingress = self.ingress.iter().map(of(IdentityId::INGRESS));
        own.chain(health).chain(ingress).map(|(ip, seat)| (IpNet::from(ip), seat))
    }
}

/// Kinds of addresses that are a node's own.
const KINDS: [&str; 3] = ["InternalIP", "ExternalIP", "CiliumInternalIP"];

/// An address of a list; none if it is of a kind that says nothing of packets, as names are.
fn address(kind: &Value, ip: &Value) -> Result<Option<NodeAddress>, String> {
    let kind = kind.as_str().unwrap_or_default();
    if !KINDS.contains(&kind) {
        return Ok(None);
    }
    let parsed = ip.as_str().and_then(|ip| ip.parse().ok());
    let ip = parsed.ok_or_else(|| format!("its {kind} {ip} is no address"))?;
    Ok(Some(NodeAddress { kind: kind.to_owned(), ip }))
}

/// Addresses that a Node of Kubernetes names.
pub(super) fn of_node(node: &Node) -> Vec<NodeAddress> {
    let all = node.status.iter().filter_map(|status| status.addresses.as_ref()).flatten();
    let own = all.filter(|it| KINDS[..2].contains(&it.type_.as_str()));
    let parsed = own.filter_map(|it| Some((it.type_.clone(), it.address.parse().ok()?)));
    parsed.map(|(kind, ip)| NodeAddress { kind, ip }).collect()
}

/// What a map of texts holds.
fn texts(map: &Value) -> BTreeMap<String, String> {
    let all = map.as_object().into_iter().flatten();
    all.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}

/// An address that may be missing.
fn some<T: std::str::FromStr>(text: Option<String>) -> Result<Option<T>, String> {
    match text.as_deref() {
        None | Some("") => Ok(None),
        Some(text) => text.parse().map(Some).map_err(|_| format!("{text:?} is no address")),
    }
}
