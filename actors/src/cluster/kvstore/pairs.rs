//! Reads and writes the keys and values by which nodes announce addresses, in Cilium's format.

use std::{net::IpAddr, sync::Arc};

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::ADDRESSES;
use crate::{
    cluster::kvstore::KvSettings,
    endpoints::endpoint::Announcement,
    model::{IdentityId, Labels, NamedPorts, SharedPorts, Tunnel},
    policy::rules::protocol,
    ports::Pair,
};

/// Whom an address belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) identity: IdentityId,
    /// The labels that it has, where that is said beside the number.
    pub(crate) labels: Option<Arc<Labels>>,
    /// Names of the ports behind the address, if any have one.
    pub(crate) named_ports: Option<Arc<NamedPorts>>,
    /// The node that it is on.
    pub(crate) tunnel: Tunnel,
}

/// Value of a key below [`ADDRESSES`], as Cilium writes it, member for member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
#[allow(missing_docs, reason = "the members are Cilium's")]
pub struct AddressPair {
    #[serde(rename = "IP")]
    pub ip: Option<IpAddr>,
    /// The bytes of a mask in base64; null for an address.
    pub mask: Option<String>,
    #[serde(rename = "HostIP")]
    pub host_ip: Option<IpAddr>,
    #[serde(rename = "ID")]
    pub id: IdentityId,
    pub key: u8,
    pub metadata: String,
    #[serde(rename = "K8sNamespace", skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    #[serde(rename = "K8sPodName", skip_serializing_if = "String::is_empty")]
    pub pod_name: String,
    #[serde(rename = "K8sServiceAccount", skip_serializing_if = "String::is_empty")]
    pub service_account: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub named_ports: Vec<PortPair>,
}

/// A port by its name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
#[allow(missing_docs, reason = "the members are Cilium's")]
pub struct PortPair {
    pub name: String,
    pub port: u16,
    pub protocol: String,
}

/// What of such a value this node needs to know: there are many of them.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Whose {
    /// The node that the address is on.
    #[serde(rename = "HostIP")]
    pub(crate) host_ip: Option<IpAddr>,
    #[serde(rename = "ID")]
    pub(crate) id: IdentityId,
    /// Names of its ports, to be read by [`read_ports`].
    #[serde(rename = "NamedPorts")]
    pub(crate) named_ports: Value,
}

/// Why a key with its value says nothing of an address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PairError {
    /// The key names none.
    #[error("kvstore key {0}: it ends in no address or prefix; remove it")]
    Key(String),
    /// The value is not what Cilium writes.
    #[error("kvstore key {key}: {cause}; remove it, its owner writes it again")]
    Value {
        /// The key.
        key: String,
        /// What is wrong.
        cause: String,
    },
}

impl AddressPair {
    /// What this node says of an endpoint's addresses.
    pub(crate) fn of_endpoint(own: &Announcement, settings: &KvSettings) -> Vec<Pair> {
        let named_ports = ports(&own.spec.named_ports);
        let addresses = own.spec.addresses.iter();
        let pair = |ip: IpAddr| Self {
            ip: Some(ip),
            mask: None,
            host_ip: Some(settings.address),
            id: own.identity,
            key: 0,
            metadata: format!("cilium-global:{}:{}:{}", settings.cluster, settings.node, own.id),
            namespace: own.spec.namespace.clone(),
            pod_name: own.spec.pod_name.clone(),
            service_account: String::new(),
            named_ports: named_ports.clone(),
        };
        addresses.map(|ip| Pair { key: key_of(ip), value: pair(ip).to_bytes() }).collect()
    }

    fn to_bytes(&self) -> Vec<u8> {
        // Plain data: serialising it cannot fail.
        serde_json::to_vec(self).unwrap_or_default()
    }
}

impl Whose {
    /// Reads a pair below `root`: the prefix comes from the key, the rest from the value.
    pub(crate) fn read(pair: &Pair, root: &str) -> Result<(IpNet, Self), PairError> {
        let prefix = prefix_of(&pair.key, root)?;
        let bad = |cause: String| PairError::Value { key: pair.key.clone(), cause };
        let value: Self =
            serde_json::from_slice(&pair.value).map_err(|error| bad(error.to_string()))?;
        if value.id == IdentityId::UNKNOWN {
            return Err(bad("it has no identity".to_owned()));
        }
        Ok((prefix, value))
    }

    /// Whom the address belongs to; without names of ports that cannot be read.
    pub(crate) fn owner(&self, key: &str, shared: &mut SharedPorts) -> Owner {
        let named_ports = read_ports(&self.named_ports, ["Name", "Port", "Protocol"]);
        let named_ports = named_ports.unwrap_or_else(|cause| {
            tracing::warn!(key, cause, "ports of an address are not known by their names");
            NamedPorts::new()
        });
        let tunnel = self.host_ip.into();
        Owner { identity: self.id, labels: None, named_ports: shared.share(named_ports), tunnel }
    }
}

const PROTOCOLS: [(&str, u8); 3] =
    [("TCP", protocol::TCP), ("UDP", protocol::UDP), ("SCTP", protocol::SCTP)];

/// A pod's ports by their names.
pub(crate) fn ports(named: &NamedPorts) -> Vec<PortPair> {
    let each = named.iter().flat_map(|(name, all)| all.iter().map(move |port| (name, port)));
    each.filter_map(|(name, &(number, port))| {
        let (text, _) = PROTOCOLS.iter().find(|(_, known)| *known == number)?;
        Some(PortPair { name: name.clone(), port, protocol: (*text).to_owned() })
    })
    .collect()
}

/// Reads what [`ports`] makes, whose members may have other names.
pub(crate) fn read_ports(listed: &Value, members: [&str; 3]) -> Result<NamedPorts, String> {
    let mut named = NamedPorts::new();
    let all = match listed {
        Value::Null => return Ok(named),
        Value::Array(all) => all,
        other => return Err(format!("its named ports are {other}, a list is expected")),
    };
    for each in all {
        let [name, port, protocol] = members.map(|member| &each[member]);
        let wrong = || format!("a port of its own is {each}: name, number or protocol is missing");
        let name = name.as_str().filter(|name| !name.is_empty()).ok_or_else(wrong)?;
        let number = port.as_u64().and_then(|port| u16::try_from(port).ok());
        let number = number.filter(|number| *number > 0).ok_or_else(wrong)?;
        let known = PROTOCOLS.iter().find(|(text, _)| protocol.as_str() == Some(*text));
        let (_, protocol) = known.ok_or_else(wrong)?;
        named.entry(name.to_ascii_lowercase()).or_default().insert((*protocol, number));
    }
    Ok(named)
}

/// The key of an address.
fn key_of(address: IpAddr) -> String {
    format!("{ADDRESSES}{address}")
}

/// The address or prefix that a key below `root` names.
pub(crate) fn prefix_of(key: &str, root: &str) -> Result<IpNet, PairError> {
    let name = key.strip_prefix(root).unwrap_or_default();
    let prefix = name.parse().map(|ip: IpAddr| IpNet::from(ip)).or_else(|_| name.parse());
    prefix.map(|prefix: IpNet| prefix.trunc()).map_err(|_| PairError::Key(key.to_owned()))
}
