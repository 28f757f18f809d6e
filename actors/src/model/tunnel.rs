//! The tunnel endpoint of an address, in a compact form for the ipcache.

use std::{
    fmt,
    net::{IpAddr, Ipv6Addr},
};

use serde::{Serialize, Serializer};

/// The node to which packets for an address go in a tunnel, if it is another one's. It takes 16
/// bytes: there is one for every address of a cluster.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tunnel(Ipv6Addr);

impl Tunnel {
    /// None: the address is on this node, or outside the cluster.
    pub const NONE: Self = Self(Ipv6Addr::UNSPECIFIED);

    /// To that node.
    pub fn to(node: IpAddr) -> Self {
        match node {
            IpAddr::V4(node) => Self(node.to_ipv6_mapped()),
            IpAddr::V6(node) => Self(node),
        }
    }

    /// The node.
    pub fn node(self) -> Option<IpAddr> {
        let node = IpAddr::V6(self.0).to_canonical();
        (!self.0.is_unspecified() && !node.is_unspecified()).then_some(node)
    }
}

impl Default for Tunnel {
    fn default() -> Self {
        Self::NONE
    }
}

impl From<Option<IpAddr>> for Tunnel {
    fn from(node: Option<IpAddr>) -> Self {
        node.map_or(Self::NONE, Self::to)
    }
}

impl fmt::Debug for Tunnel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.node().fmt(f)
    }
}

impl Serialize for Tunnel {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.node().serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_node_comes_out_as_it_went_in() {
        for text in ["192.0.2.1", "2001:db8::1", "255.255.255.255"] {
            let node: IpAddr = text.parse().unwrap();
            assert_eq!(Tunnel::to(node).node(), Some(node));
        }
        for nowhere in ["0.0.0.0", "::"] {
            assert_eq!(Tunnel::to(nowhere.parse().unwrap()).node(), None);
        }
        assert_eq!((Tunnel::NONE.node(), size_of::<Tunnel>()), (None, 16));
    }
}
