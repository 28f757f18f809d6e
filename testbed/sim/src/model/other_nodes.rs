//! Other nodes with prefixes of pods: where they are, and who claims which prefix.

use std::{collections::BTreeMap, net::IpAddr};

use ipnet::IpNet;

/// Other nodes with prefixes that there may be.
pub(crate) const NODES: u8 = 3;

/// Prefixes that they may have, of which two nodes may claim the same.
pub(crate) const PREFIXES: u8 = 4;

/// Where a node is, by family.
pub(crate) fn gateways(number: u8) -> [IpAddr; 2] {
    [format!("192.0.2.1{number}"), format!("2001:db8::1{number}")]
        .map(|text| text.parse().expect("an address"))
}

/// Prefixes of pods, by family.
pub(crate) fn nets(prefix: u8) -> [IpNet; 2] {
    [format!("10.2{prefix}.0.0/24"), format!("fd2{prefix}::/64")]
        .map(|text| text.parse().expect("a prefix"))
}

/// The prefix of each node that there is.
#[derive(Default)]
pub(crate) struct NodePrefixes(BTreeMap<u8, u8>);

impl NodePrefixes {
    /// A node has that prefix from now on, or is gone; the prefixes that it had and has no more.
    pub(crate) fn becomes(&mut self, number: u8, prefix: Option<u8>) -> Option<[IpNet; 2]> {
        let before = match prefix {
            Some(prefix) => self.0.insert(number, prefix),
            None => self.0.remove(&number),
        };
        before.filter(|before| Some(*before) != prefix).map(nets)
    }

    /// Whether that node is there.
    pub(crate) fn has(&self, number: u8) -> bool {
        self.0.contains_key(&number)
    }

    /// Nodes that claim each prefix.
    pub(crate) fn claims(&self) -> BTreeMap<IpNet, Vec<IpAddr>> {
        let mut claims = BTreeMap::<_, Vec<_>>::new();
        for (&number, &prefix) in &self.0 {
            for (net, gateway) in nets(prefix).into_iter().zip(gateways(number)) {
                claims.entry(net).or_default().push(gateway);
            }
        }
        claims
    }
}
