//! Routing settings of this node: the mode, its addresses, and the MTU that is left for pods.

use std::{collections::BTreeSet, net::IpAddr};

use ipnet::IpNet;
use serde::Serialize;

use crate::{
    endpoints::ipam::Pools,
    model::{Addresses, Families},
};

/// Bytes that a tunnel puts around a packet: Ethernet, VXLAN, UDP and IPv4.
const OVERHEAD_IPV4: u32 = 50;
/// The same where nodes reach each other by IPv6.
const OVERHEAD_IPV6: u32 = 70;

/// How packets of pods reach other nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RoutingMode {
    /// In tunnels (VXLAN) between nodes.
    Tunnel {
        /// The UDP port of their packets.
        port: u16,
    },
    /// As they are, by the node's routes.
    Native {
        /// Whether the agent makes these routes, to nodes that are neighbours.
        direct: bool,
        /// Whether a node that is no neighbour is nothing to complain of.
        skip_unreachable: bool,
    },
}

/// What the owner of the ways to other nodes has to know.
#[derive(Clone, Debug)]
pub struct RoutesSettings {
    /// How packets reach other nodes.
    pub mode: RoutingMode,
    /// Families that are switched on.
    pub families: Families,
    /// The addresses by which other nodes reach this one.
    pub addresses: Addresses,
    /// The address that pods route through.
    pub router: Addresses,
    /// Addresses of this node's pods.
    pub pools: Pools,
    /// The same, of several pools.
    pub own_prefixes: BTreeSet<IpNet>,
    /// The largest packet that the node's own devices take, bytes.
    pub mtu: u32,
    /// Which records programs emit of what goes through tunnels: bits of
    /// [`device_flags`](crate::ports::device_flags).
    pub records: u16,
    /// Whether nobody will ever name other nodes.
    pub alone: bool,
}

impl RoutingMode {
    /// The largest packet that reaches other nodes, where the node's devices take `mtu` and others
    /// reach it at that address; bytes.
    pub fn route_mtu(self, mtu: u32, address: Option<IpAddr>) -> u32 {
        let overhead = match (self, address) {
            (Self::Native { .. }, _) => 0,
            (Self::Tunnel { .. }, Some(IpAddr::V6(_))) => OVERHEAD_IPV6,
            (Self::Tunnel { .. }, _) => OVERHEAD_IPV4,
        };
        mtu.saturating_sub(overhead)
    }
}

impl RoutesSettings {
    /// The largest packet that reaches other nodes, bytes.
    pub(super) fn route_mtu(&self) -> u32 {
        self.mode.route_mtu(self.mtu, self.addresses.iter().next())
    }

    /// The address to which tunnels lead, of one that has these: in the family in which this node
    /// has one, IPv4 if in both.
    pub(super) fn tunnel_end(&self, addresses: Addresses) -> Option<IpAddr> {
        match self.addresses.ipv4 {
            Some(_) => addresses.ipv4.map(IpAddr::V4),
            None => addresses.ipv6.map(IpAddr::V6),
        }
    }
}
