//! Rows of the maps that balance load.

use std::net::SocketAddr;

use ipnet::IpNet;
use serde::Serialize;

use crate::model::{BackendId, Frontend, L4Address, ServiceId};

/// Flags of a [`SlotRow`], as in Cilium 1.19: the low byte is `flags`, the high one `flags2`.
pub mod service_flags {
    /// The frontend is an address that the cluster's users announce.
    pub const EXTERNAL_IP: u16 = 1;
    /// The frontend is a port of a node.
    pub const NODE_PORT: u16 = 2;
    /// From outside only backends of this node are used.
    pub const EXTERNAL_LOCAL: u16 = 4;
    /// The frontend is a port of this node that a pod has.
    pub const HOST_PORT: u16 = 8;
    /// A client stays with its backend.
    pub const AFFINITY: u16 = 16;
    /// The frontend is an address of a load balancer.
    pub const LOAD_BALANCER: u16 = 32;
    /// It is reached from outside the cluster, too.
    pub const ROUTABLE: u16 = 64;
    /// Only from some addresses.
    pub const SOURCE_RANGE: u16 = 128;
    /// From inside only backends of this node are used.
    pub const INTERNAL_LOCAL: u16 = 16 << 8;
    /// There is another frontend for packets from inside the cluster.
    pub const TWO_SCOPES: u16 = 32 << 8;
    /// Source ranges name who may not use it.
    pub const DENY_RANGE: u16 = 64 << 8;
    /// Backends behind other nodes answer clients outside themselves, where the node lets services
    /// say so.
    pub const DSR: u16 = 128 << 8;
    /// In other slots than the first: the backend is quarantined.
    pub const QUARANTINED: u16 = 64 << 8;
}

/// Place of a row of `cilium_lb4_services_v2` or `cilium_lb6_services_v2`: slot 0 is the frontend
/// itself, the others lead to a backend each.
pub type SlotKey = (Frontend, u16);

/// Row of `cilium_lb4_services_v2` or `cilium_lb6_services_v2`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlotRow {
    /// In slot 0, how a backend is chosen in the upper 8 bits, and for how many seconds a client
    /// stays with it in the lower 24; in others the backend's number.
    pub word: u32,
    /// In slot 0: how many slots from 1 on lead to backends that are used.
    pub count: u16,
    /// The service's number.
    pub id: ServiceId,
    /// Bits of [`service_flags`].
    pub flags: u16,
    /// In slot 0: how many slots behind those lead to quarantined backends.
    pub quarantined: u16,
}

/// How backends are used, as `cilium_lb4_backends_v3` numbers it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum BackendState {
    /// By new connections and old ones.
    #[default]
    Active = 0,
    /// By the connections that it has.
    Terminating = 1,
    /// By none, until it is healthy again.
    Quarantined = 2,
    /// By none, until somebody says so.
    Maintenance = 3,
}

/// Row of `cilium_lb4_backends_v3` or `cilium_lb6_backends_v3`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackendRow {
    /// Where it is.
    pub at: L4Address,
    /// How it is used.
    pub state: BackendState,
    /// Number of its zone, 0 if it has none.
    pub zone: u8,
}

/// Place of a row of `volvox_lb4_members` or `volvox_lb6_members`: a backend that a service lists, or that left
/// it and may have connections by it.
pub type MemberKey = (ServiceId, BackendId);

/// Row of `volvox_lb`: the numbers from which on none was ever used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnusedNumbers {
    /// Of backends.
    pub backend: u32,
    /// Of services; 0 once all were.
    pub service: u32,
}

/// The service of a table of Maglev, whether that is IPv4, and the backends that it is computed of.
pub type MaglevTable = (ServiceId, bool, Vec<(BackendId, L4Address)>);

/// Rows of one kind, which are written in batches.
#[derive(Clone, Debug, PartialEq)]
pub enum ServiceRows {
    /// Of `volvox_lb`.
    Unused(UnusedNumbers),
    /// Of `cilium_lb4_services_v2` and `cilium_lb6_services_v2`.
    Slots(Vec<(SlotKey, SlotRow)>),
    /// Of `cilium_lb4_backends_v3` and `cilium_lb6_backends_v3`.
    Backends(Vec<(BackendId, BackendRow)>),
    /// Of `volvox_lb4_members` and `volvox_lb6_members`: where a service's backends are, and how that
    /// service uses each. Several services may use one backend otherwise.
    Members(Vec<(MemberKey, BackendRow)>),
    /// Of `cilium_lb4_reverse_nat` and `cilium_lb6_reverse_nat`: where replies come from.
    ReverseNat(Vec<(ServiceId, SocketAddr)>),
    /// Of `cilium_lb_affinity_match`: clients of the service may stay with the backend.
    AffinityMatches(Vec<(BackendId, ServiceId)>),
    /// Of `cilium_lb4_source_range` and `cilium_lb6_source_range`: who may use the service.
    SourceRanges(Vec<(ServiceId, IpNet)>),
    /// Of `cilium_lb4_maglev` and `cilium_lb6_maglev`.
    Maglev(Vec<MaglevTable>),
}

/// Places of rows of one kind; the flag of each is whether it is IPv4.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the kinds are those of ServiceRows")]
pub enum ServiceKeys {
    Slots(Vec<SlotKey>),
    Backends(Vec<(BackendId, bool)>),
    Members(Vec<(MemberKey, bool)>),
    ReverseNat(Vec<(ServiceId, bool)>),
    AffinityMatches(Vec<(BackendId, ServiceId)>),
    SourceRanges(Vec<(ServiceId, IpNet)>),
    Maglev(Vec<(ServiceId, bool)>),
}

impl ServiceRows {
    /// Name of the step that writes them, for traces.
    pub(super) fn op(&self) -> &'static str {
        match self {
            Self::Unused(_) => "PutUnusedNumbers",
            Self::Slots(_) => "PutServiceSlots",
            Self::Backends(_) => "PutBackends",
            Self::Members(_) => "PutMembers",
            Self::ReverseNat(_) => "PutReverseNat",
            Self::AffinityMatches(_) => "PutAffinityMatches",
            Self::SourceRanges(_) => "PutSourceRanges",
            Self::Maglev(_) => "PutMaglev",
        }
    }

    /// How many.
    pub fn len(&self) -> usize {
        match self {
            Self::Unused(_) => 1,
            Self::Slots(rows) => rows.len(),
            Self::Backends(rows) => rows.len(),
            Self::Members(rows) => rows.len(),
            Self::ReverseNat(rows) => rows.len(),
            Self::AffinityMatches(rows) => rows.len(),
            Self::SourceRanges(rows) => rows.len(),
            Self::Maglev(rows) => rows.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl ServiceKeys {
    /// Name of the step that removes them, for traces.
    pub(super) fn op(&self) -> &'static str {
        match self {
            Self::Slots(_) => "DeleteServiceSlots",
            Self::Backends(_) => "DeleteBackends",
            Self::Members(_) => "DeleteMembers",
            Self::ReverseNat(_) => "DeleteReverseNat",
            Self::AffinityMatches(_) => "DeleteAffinityMatches",
            Self::SourceRanges(_) => "DeleteSourceRanges",
            Self::Maglev(_) => "DeleteMaglev",
        }
    }

    /// How many.
    pub fn len(&self) -> usize {
        match self {
            Self::Slots(keys) => keys.len(),
            Self::Backends(keys) => keys.len(),
            Self::Members(keys) => keys.len(),
            Self::ReverseNat(keys) => keys.len(),
            Self::AffinityMatches(keys) => keys.len(),
            Self::SourceRanges(keys) => keys.len(),
            Self::Maglev(keys) => keys.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What the maps that balance load hold, as it is read at start. Rows are sorted by their keys.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServiceTables {
    /// Of `volvox_lb`.
    pub unused: UnusedNumbers,
    /// Of `cilium_lb4_services_v2` and `cilium_lb6_services_v2`.
    pub slots: Vec<(SlotKey, SlotRow)>,
    /// Of `cilium_lb4_backends_v3`, then of `cilium_lb6_backends_v3`.
    pub backends: Vec<(BackendId, BackendRow)>,
    /// Rows of backends that say they are another one's: programs use none of them.
    pub mistaken: Vec<(BackendId, L4Address)>,
    /// Of `volvox_lb4_members`, then of `volvox_lb6_members`.
    pub members: Vec<(MemberKey, BackendRow)>,
    /// Of `cilium_lb4_reverse_nat`, then of `cilium_lb6_reverse_nat`.
    pub reverse_nat: Vec<(ServiceId, SocketAddr)>,
    /// Of `cilium_lb_affinity_match`.
    pub affinity: Vec<(BackendId, ServiceId)>,
    /// Of `cilium_lb4_source_range` and `cilium_lb6_source_range`.
    pub ranges: Vec<(ServiceId, IpNet)>,
    /// Services that have a table of Maglev; the flag is whether it is IPv4.
    pub maglev: Vec<(ServiceId, bool)>,
    /// Rows that mean nothing, in words. They were left where they are.
    pub foreign: Vec<String>,
    /// How many rows a map has room for; 0 is no limit.
    pub room: usize,
}
