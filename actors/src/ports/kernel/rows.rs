//! Rows as they are read to be compared: a page at a time.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use ipnet::IpNet;

use super::{BackendRow, IpcacheRow, LxcRow, MemberKey, SlotKey, SlotRow, UnusedNumbers};
use crate::model::{BackendId, EndpointId, PolicyRows, ServiceId};

/// A map that is read by pages. Where there is one for each family they are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "each is named after its map")]
pub enum RowMap {
    Ipcache,
    Lxc,
    Node,
    Unused,
    Backends4,
    Backends6,
    Slots4,
    Slots6,
    Members4,
    Members6,
    ReverseNat4,
    ReverseNat6,
    AffinityMatches,
    SourceRanges4,
    SourceRanges6,
    Maglev4,
    Maglev6,
}

impl RowMap {
    /// Those that balance load.
    pub const SERVICES: [Self; 14] = [
        Self::Unused,
        Self::Backends4,
        Self::Backends6,
        Self::Slots4,
        Self::Slots6,
        Self::Members4,
        Self::Members6,
        Self::ReverseNat4,
        Self::ReverseNat6,
        Self::AffinityMatches,
        Self::SourceRanges4,
        Self::SourceRanges6,
        Self::Maglev4,
        Self::Maglev6,
    ];

    /// The map's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ipcache => "cilium_ipcache_v2",
            Self::Lxc => "cilium_lxc",
            Self::Node => "volvox_node",
            Self::Unused => "volvox_lb",
            Self::Backends4 => "cilium_lb4_backends_v3",
            Self::Backends6 => "cilium_lb6_backends_v3",
            Self::Slots4 => "cilium_lb4_services_v2",
            Self::Slots6 => "cilium_lb6_services_v2",
            Self::Members4 => "volvox_lb4_members",
            Self::Members6 => "volvox_lb6_members",
            Self::ReverseNat4 => "cilium_lb4_reverse_nat",
            Self::ReverseNat6 => "cilium_lb6_reverse_nat",
            Self::AffinityMatches => "cilium_lb_affinity_match",
            Self::SourceRanges4 => "cilium_lb4_source_range",
            Self::SourceRanges6 => "cilium_lb6_source_range",
            Self::Maglev4 => "cilium_lb4_maglev",
            Self::Maglev6 => "cilium_lb6_maglev",
        }
    }

    /// Whether it is the one of a family, and of which: IPv4?
    pub const fn is_ipv4(self) -> Option<bool> {
        match self {
            Self::Ipcache | Self::Lxc | Self::Node | Self::Unused | Self::AffinityMatches => None,
            Self::Backends4
            | Self::Slots4
            | Self::Members4
            | Self::ReverseNat4
            | Self::SourceRanges4
            | Self::Maglev4 => Some(true),
            Self::Backends6
            | Self::Slots6
            | Self::Members6
            | Self::ReverseNat6
            | Self::SourceRanges6
            | Self::Maglev6 => Some(false),
        }
    }
}

/// Where the next page begins, in the kernel's own terms.
pub type RowPlace = Box<[u8]>;

/// Rows with their keys. No value is one that nobody writes.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "each is named after its map")]
pub enum PageRows {
    Ipcache(Vec<(IpNet, Option<IpcacheRow>)>),
    Lxc(Vec<(IpAddr, Option<LxcRow>)>),
    /// Whether it is as it was written last.
    Node(bool),
    Unused(UnusedNumbers),
    Backends(Vec<(BackendId, Option<BackendRow>)>),
    Slots(Vec<(SlotKey, Option<SlotRow>)>),
    Members(Vec<(MemberKey, Option<BackendRow>)>),
    ReverseNat(Vec<(ServiceId, Option<SocketAddr>)>),
    AffinityMatches(Vec<(BackendId, ServiceId)>),
    SourceRanges(Vec<(ServiceId, IpNet)>),
    Maglev(Vec<ServiceId>),
}

/// Some rows of a map.
#[derive(Clone, Debug, PartialEq)]
pub struct RowPage {
    /// They.
    pub rows: PageRows,
    /// Keys that nobody writes, as the kernel has them.
    pub strange: Vec<Box<[u8]>>,
    /// Where the next page begins; none if this is the last.
    pub next: Option<RowPlace>,
}

/// An endpoint's policy, as it was written.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyCheck {
    /// The endpoint.
    pub endpoint: EndpointId,
    /// Under which interface its configuration stands.
    pub ifindex: u32,
    /// What the map in the slot that its configuration names is to hold.
    pub rows: Arc<PolicyRows>,
}
