//! Messages to the owner of routes, and the view that it shows.

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;
use serde::Serialize;

use super::RoutingMode;
use crate::{
    endpoints::ipam::Pools,
    host::{Message, Reply},
    model::{Addresses, NodeFacts, NodeKey},
};

/// Where another node is, and which addresses its pods have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Neighbour {
    /// By which it is reached, of each family.
    pub addresses: Addresses,
    /// Of its pods.
    pub pools: Pools,
    /// Further ones, of several pools.
    pub more: BTreeSet<IpNet>,
}

impl Neighbour {
    /// All prefixes of its pods.
    pub(super) fn prefixes(&self) -> BTreeSet<IpNet> {
        let (ipv4, ipv6) = (self.pools.ipv4.map(IpNet::from), self.pools.ipv6.map(IpNet::from));
        let all = ipv4.into_iter().chain(ipv6).chain(self.more.iter().copied());
        all.map(|prefix| prefix.trunc()).collect()
    }
}

/// What the owner of the ways to other nodes can be told.
pub enum RoutesMsg {
    /// What is known of other nodes.
    Nodes {
        /// Those of which something new is known; none is gone.
        changed: BTreeMap<NodeKey, Option<Neighbour>>,
        /// Whether all that there are were named.
        all: bool,
    },
    /// This node is so from now on.
    Facts(NodeFacts),
    /// This node's pods have these prefixes: no other node has.
    OwnPrefixes(BTreeSet<IpNet>),
    /// From the kernel, unasked: a device, an address, a route or a rule changed.
    Disturbed,
    /// Show how it stands.
    Show(Reply<RoutesView>),
}

impl Message for RoutesMsg {
    fn kind(&self) -> &'static str {
        match self {
            Self::Nodes { .. } => "Nodes",
            Self::Facts(_) => "Facts",
            Self::OwnPrefixes(_) => "OwnPrefixes",
            Self::Disturbed => "Disturbed",
            Self::Show(_) => "Show",
        }
    }
}

/// How the ways to other nodes stand.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RoutesView {
    /// How packets reach other nodes.
    pub mode: RoutingMode,
    /// Other nodes that are known.
    pub nodes: usize,
    /// Whether all that there are were named.
    pub synced: bool,
    /// Routes to prefixes of their pods.
    pub routes: usize,
    /// The device by which packets leave in tunnels; 0 if there is none.
    pub tunnel: u32,
    /// What is in the way, by the prefix or the device that it is about.
    pub troubles: BTreeMap<String, String>,
    /// What is left out because it was asked for.
    pub skipped: BTreeMap<String, String>,
    /// Why the last look failed.
    pub last_error: Option<String>,
}
