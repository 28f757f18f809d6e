//! The node's own addresses and pools on disk, with a copy that survives the state directory.

use std::net::IpAddr;

use ipnet::{Ipv4Net, Ipv6Net};
use serde::{Deserialize, Serialize};

use super::Slots;
use crate::model::{Addresses, Mac};

/// What the node itself must find again after a restart. The fields are in the order of their names:
/// so they are written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeState {
    /// By which other nodes reached this one.
    pub address: Addresses,
    /// Pool of IPv4 addresses that was in use.
    pub ipv4_range: Option<Ipv4Net>,
    /// Pool of IPv6 addresses that was in use.
    pub ipv6_range: Option<Ipv6Net>,
    /// Name of the node that it is of; older agents did not write it.
    pub name: String,
    /// Addresses of the node in the pods' network: their gateway.
    pub router: Addresses,
    /// Ethernet address that answers for the gateway.
    pub router_mac: Mac,
}

impl NodeState {
    /// Where it is kept.
    pub const SLOTS: Slots<Self> = Slots::new("node");

    /// Whether pods that have these addresses got them from its ranges: then they are of the same
    /// life of the node.
    pub fn gave(&self, addresses: impl IntoIterator<Item = IpAddr>) -> bool {
        addresses.into_iter().any(|address| match address {
            IpAddr::V4(address) => self.ipv4_range.is_some_and(|range| range.contains(&address)),
            IpAddr::V6(address) => self.ipv6_range.is_some_and(|range| range.contains(&address)),
        })
    }
}

/// What of it outlives the state directory, which may be lost: a copy in the library directory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeCopy {
    /// Name of the node that it is of: a library directory may be another node's.
    pub node: String,
    /// What it knew.
    pub state: NodeState,
}

impl NodeCopy {
    /// Where it is kept.
    pub const SLOTS: Slots<Self> = Slots::new("lib/node");
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::MemoryFs;

    #[test]
    fn comes_back_as_it_was() {
        let state = NodeState {
            router: Addresses { ipv4: "10.0.0.1".parse().ok(), ipv6: "fd00::1".parse().ok() },
            router_mac: Mac([2, 0, 0, 0, 0, 1]),
            ipv4_range: "10.0.0.0/16".parse().ok(),
            ipv6_range: None,
            address: Addresses { ipv4: "192.0.2.7".parse().ok(), ipv6: None },
            name: "a".to_owned(),
        };
        let mut fs = MemoryFs::default();
        fs.apply(&NodeState::SLOTS.save(&state, 1)).unwrap();
        assert_eq!(NodeState::SLOTS.load(&fs).value, Some(state));
    }

    #[test]
    fn a_copy_counts_for_pods_that_have_its_addresses() {
        let state = NodeState { ipv4_range: "10.1.0.0/24".parse().ok(), ..NodeState::default() };
        let copy = NodeCopy { node: "a".to_owned(), state };
        let gave = |texts: &[&str]| copy.state.gave(texts.iter().map(|text| text.parse().unwrap()));
        assert!(gave(&["fd00::7", "10.1.0.7"]));
        assert!(!gave(&["10.2.0.7", "fd00::7"]) && !gave(&[]));
        let mut fs = MemoryFs::default();
        fs.apply(&NodeCopy::SLOTS.save(&copy, 1)).unwrap();
        assert_eq!(NodeCopy::SLOTS.load(&fs).value, Some(copy));
    }

    #[test]
    fn an_older_and_a_newer_version_read_each_other() {
        let router = json!({ "ipv4": "10.0.0.1", "ipv6": null });
        let load = |said: &Value| {
            let mut fs = MemoryFs::default();
            fs.apply(&Slots::<Value>::new("node").save(said, 1)).unwrap();
            NodeState::SLOTS.load(&fs).value.unwrap()
        };
        let older = load(&json!({ "ipv4_range": "10.0.0.0/16", "router": router }));
        assert_eq!(older.address, Addresses::default());
        assert_eq!(older.router.ipv4, "10.0.0.1".parse().ok());
        let newer = load(&json!({ "address": { "ipv4": "192.0.2.7" }, "another": [1] }));
        assert_eq!(newer.address.ipv4, "192.0.2.7".parse().ok());
    }
}
