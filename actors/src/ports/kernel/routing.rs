//! Ways to other nodes: routes to their pods, and the overlay's devices.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use ipnet::IpNet;

use super::Link;
use crate::host::About;

/// The overlay's device, by which packets for pods of other nodes leave in a tunnel.
pub const OVERLAY: &str = "cilium_vxlan";
/// The device that has the address which pods route through.
pub const HOST_DEVICE: &str = "cilium_host";
/// The other end of it.
pub const HOST_PEER: &str = "cilium_net";

/// How packets for the pods of another node leave this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Hop {
    /// As they are, to that node, which is a neighbour at an interface.
    Direct {
        /// The node.
        gateway: IpAddr,
        /// The interface.
        ifindex: u32,
    },
    /// In a tunnel to that node.
    Tunnel {
        /// The node.
        node: IpAddr,
        /// The overlay's device.
        ifindex: u32,
        /// The node's own packets have this source, if they have none yet.
        source: Option<IpAddr>,
        /// The largest packet that fits, bytes.
        mtu: u32,
    },
}

impl Hop {
    /// The node that is reached.
    pub const fn node(&self) -> IpAddr {
        match self {
            Self::Direct { gateway, .. } => *gateway,
            Self::Tunnel { node, .. } => *node,
        }
    }
}

/// Where the rule that looks up the node's own addresses belongs: others' rules fit in before it.
pub const LOCAL_RULE_PRIORITY: u32 = 100;

/// A rule by which every packet of a family is looked up in the table of the node's own addresses, of
/// the kernel's origin (`proto kernel`): programs that tidy up rules of others leave such alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LocalRule {
    /// Of IPv6, or else of IPv4.
    pub ipv6: bool,
    /// Rules of lower numbers are asked first. The kernel begins with 0.
    pub priority: u32,
}

/// Which rules of a family look up every packet in the table of the node's own addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LocalRules {
    /// Priorities of those of the kernel's origin.
    pub priorities: BTreeSet<u32>,
    /// Whether somebody else made one.
    pub others: bool,
}

/// A device that is there, or should be, for pods of other nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoutingDevice {
    /// Its number.
    pub ifindex: u32,
    /// An agent made it: it has our mark.
    pub ours: bool,
    /// Its kind, its switches and its peer are those of a device of that name.
    pub fit: bool,
    /// Of the overlay: the UDP port of its packets.
    pub port: u16,
    /// The kernel's parameters for it are as they are to be.
    pub prepared: bool,
    /// Of the overlay: the current programs take what goes through tunnels.
    pub attached: bool,
}

/// What leads to other nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Routing {
    /// Interfaces by number.
    pub links: BTreeMap<u32, Link>,
    /// [`OVERLAY`], [`HOST_DEVICE`] and [`HOST_PEER`], those that are there.
    pub devices: BTreeMap<String, RoutingDevice>,
    /// Routes of ours to prefixes of other nodes.
    pub routes: BTreeMap<IpNet, Hop>,
    /// Prefixes to which a route of ours leads that is of no such kind.
    pub odd: BTreeSet<IpNet>,
    /// Rules that look up the node's own addresses, of IPv4 and of IPv6 (`true`); none of a family
    /// that has no rules at all.
    pub rules: BTreeMap<bool, LocalRules>,
    /// The device by which the programs send packets in tunnels; 0 if they send none.
    pub tunnel: u32,
    /// The UDP port of the outer packets, which a policy of the node itself lets pass; 0 if the
    /// programs do not know it.
    pub port: u16,
    /// Which records they emit of what goes through them: bits of
    /// [`device_flags`](super::device_flags).
    pub records: u16,
    /// The kernel drops packets whose source is reached by another interface than they came by,
    /// whatever is said of that interface alone.
    pub strict: bool,
}

/// A step that changes what leads to other nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoutingOp {
    /// Makes [`OVERLAY`], which is down then. Fails if there is one.
    MakeOverlay {
        /// The UDP port of its packets.
        port: u16,
        /// The largest packet that it takes, bytes.
        mtu: u32,
    },
    /// Makes [`HOST_DEVICE`] and [`HOST_PEER`], which are down then. Fails if there is one.
    MakeHostPair {
        /// The largest packet that they take, bytes.
        mtu: u32,
    },
    /// Sets the kernel's parameters for a device of ours.
    Prepare {
        /// Its name.
        name: String,
    },
    /// Sets the largest packet that a device of ours takes.
    SetMtu {
        /// Its number.
        ifindex: u32,
        /// Bytes.
        mtu: u32,
    },
    /// Gives a device of ours an address.
    Assign {
        /// Its number.
        ifindex: u32,
        /// The address.
        address: IpAddr,
    },
    /// Takes an address from it.
    Unassign {
        /// Its number.
        ifindex: u32,
        /// The address, as it was assigned.
        address: IpNet,
    },
    /// Removes a device, if it still is ours and has that name, and with it what leads there.
    Remove {
        /// Its number.
        ifindex: u32,
        /// Its name.
        name: String,
    },
    /// Tells the programs by which device they send packets in tunnels; 0 is none.
    Tunnel {
        /// Its number.
        ifindex: u32,
        /// The UDP port of the outer packets.
        port: u16,
        /// Which records they emit of what goes through it: bits of
        /// [`device_flags`](super::device_flags).
        records: u16,
    },
    /// Routes a prefix, in place of a route of ours to it, if there is one.
    Route {
        /// The prefix of a node's pods.
        prefix: IpNet,
        /// How packets leave.
        hop: Hop,
        /// Whether there is one of ours, to be replaced. If not, one of somebody else stays, and
        /// this fails.
        replaces: bool,
    },
    /// Removes our route to a prefix; an absent one is fine.
    Unroute {
        /// The prefix of a node's pods.
        prefix: IpNet,
    },
    /// Makes a rule that looks up the node's own addresses; one that is there stays.
    PutLocalRule(LocalRule),
    /// Removes such a rule; an absent one is fine.
    DeleteLocalRule(LocalRule),
}

impl RoutingOp {
    /// Name of the step, for traces.
    pub(super) fn op(&self) -> &'static str {
        match self {
            Self::MakeOverlay { .. } => "MakeOverlay",
            Self::MakeHostPair { .. } => "MakeHostPair",
            Self::Prepare { .. } => "PrepareDevice",
            Self::SetMtu { .. } => "SetMtu",
            Self::Assign { .. } => "AssignAddress",
            Self::Unassign { .. } => "UnassignAddress",
            Self::Remove { .. } => "RemoveDevice",
            Self::Tunnel { .. } => "SetTunnel",
            Self::Route { .. } => "PutNodeRoute",
            Self::Unroute { .. } => "DeleteNodeRoute",
            Self::PutLocalRule(_) => "PutLocalRule",
            Self::DeleteLocalRule(_) => "DeleteLocalRule",
        }
    }

    /// What it is about, for traces.
    pub(super) fn about(&self) -> About {
        match self {
            Self::MakeOverlay { .. }
            | Self::MakeHostPair { .. }
            | Self::Prepare { .. }
            | Self::PutLocalRule(_)
            | Self::DeleteLocalRule(_) => About::All,
            Self::SetMtu { ifindex, .. }
            | Self::Assign { ifindex, .. }
            | Self::Unassign { ifindex, .. }
            | Self::Remove { ifindex, .. }
            | Self::Tunnel { ifindex, .. } => About::Interface(*ifindex),
            Self::Route { prefix, .. } | Self::Unroute { prefix } => About::Address(prefix.addr()),
        }
    }
}
