//! Shape of an entry of the ipcache.

use std::{collections::BTreeMap, net::IpAddr};

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use volvox_actors::policy::ipcache::{IpcacheEntry, IpcacheSource};

/// An address or prefix and its identity.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct IpListEntry {
    /// The prefix.
    pub cidr: String,
    /// Node that the address is on.
    #[serde(rename = "hostIP", skip_serializing_if = "String::is_empty")]
    pub host_ip: String,
    /// Its identity.
    pub identity: u32,
    /// Who says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<IpMetadata>,
}

/// Who says what identity an address has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct IpMetadata {
    /// `endpoint 42`, `node`, `policy`.
    pub source: String,
}

impl IpListEntry {
    /// Each entry, by prefix.
    ///
    /// Addresses of this node's endpoints are on it, which is named by its first address `node`.
    pub fn list(entries: &BTreeMap<IpNet, IpcacheEntry>, node: Option<IpAddr>) -> Vec<Self> {
        let is_local = |entry: &IpcacheEntry| matches!(entry.source, IpcacheSource::Endpoint(_));
        entries
            .iter()
            .map(|(prefix, entry)| Self {
                cidr: prefix.to_string(),
                host_ip: (node.filter(|_| is_local(entry)).or(entry.tunnel.node()))
                    .map(|ip| ip.to_string())
                    .unwrap_or_default(),
                identity: entry.identity.0,
                metadata: Some(IpMetadata { source: entry.source.to_string() }),
            })
            .collect()
    }
}
