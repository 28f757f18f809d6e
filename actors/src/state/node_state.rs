use ipnet::{Ipv4Net, Ipv6Net};
use serde::{Deserialize, Serialize};

use super::Slots;
use crate::model::{Addresses, Mac};

/// What the node itself must find again after a restart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeState {
    /// Pool of IPv4 addresses that was in use.
    pub ipv4_range: Option<Ipv4Net>,
    /// Pool of IPv6 addresses that was in use.
    pub ipv6_range: Option<Ipv6Net>,
    /// Addresses of the node in the pods' network: their gateway.
    pub router: Addresses,
    /// Ethernet address that answers for the gateway.
    pub router_mac: Mac,
}

impl NodeState {
    /// Where it is kept.
    pub const SLOTS: Slots<Self> = Slots::new("node");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::MemoryFs;

    #[test]
    fn comes_back_as_it_was() {
        let state = NodeState {
            router: Addresses { ipv4: "10.0.0.1".parse().ok(), ipv6: "fd00::1".parse().ok() },
            router_mac: Mac([2, 0, 0, 0, 0, 1]),
            ipv4_range: "10.0.0.0/16".parse().ok(),
            ipv6_range: None,
        };
        let mut fs = MemoryFs::default();
        fs.apply(&NodeState::SLOTS.save(&state, 1)).unwrap();
        assert_eq!(NodeState::SLOTS.load(&fs).value, Some(state));
    }
}
