//! `cilium_lb4_services_v2` and `cilium_lb6_services_v2`: services and the slots of their backends,
//! and `volvox_lb`.

use super::{Be16, families::families};
use std::mem::{offset_of, size_of};
use std::net::{IpAddr, SocketAddr};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

families! {
    /// Key of a family's map. Slot 0 is the service itself, the slots behind it its backends.
    #[repr(C)]
    #[derive(
        Clone,
        Copy,
        Debug,
        Default,
        PartialEq,
        Eq,
        PartialOrd,
        Ord,
        FromBytes,
        IntoBytes,
        Immutable,
        KnownLayout,
    )]
    pub struct SlotKey {
        /// Address that clients use.
        pub address: Address,
        /// Port that clients use; 0 stands for every port that has no row of its own.
        pub port: Be16,
        /// 0 for the service, from 1 on its backends.
        pub slot: u16,
        /// IP protocol; 0 together with port 0.
        pub protocol: u8,
        /// A number of [`LbScope`].
        pub scope: u8,
        /// Zero.
        pub pad: [u8; 2],
    }
}

/// The key of a service in the map of its family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LbKey {
    /// In `cilium_lb4_services_v2`.
    V4(v4::SlotKey),
    /// In `cilium_lb6_services_v2`.
    V6(v6::SlotKey),
}

impl LbKey {
    /// Slot 0 of what clients reach at an address by a protocol.
    pub fn new(frontend: SocketAddr, protocol: u8, scope: LbScope) -> Self {
        let (port, scope) = (Be16::new(frontend.port()), scope as u8);
        match frontend.ip() {
            IpAddr::V4(v4) => {
                let address = v4.octets();
                Self::V4(v4::SlotKey { address, port, protocol, scope, ..v4::SlotKey::default() })
            }
            IpAddr::V6(v6) => {
                let address = v6.octets();
                Self::V6(v6::SlotKey { address, port, protocol, scope, ..v6::SlotKey::default() })
            }
        }
    }

    /// Slot 0 for every port and protocol of an address that has no row of its own.
    pub fn wildcard(address: IpAddr) -> Self {
        Self::new(SocketAddr::new(address, 0), 0, LbScope::External)
    }

    /// The same service's key of another slot.
    #[must_use]
    pub fn slot(self, slot: u16) -> Self {
        match self {
            Self::V4(key) => Self::V4(v4::SlotKey { slot, ..key }),
            Self::V6(key) => Self::V6(v6::SlotKey { slot, ..key }),
        }
    }

    /// Address and port that clients use.
    pub fn frontend(&self) -> SocketAddr {
        match self {
            Self::V4(key) => SocketAddr::new(key.address.into(), key.port.get()),
            Self::V6(key) => SocketAddr::new(key.address.into(), key.port.get()),
        }
    }
}

/// From where a service is seen with these backends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum LbScope {
    /// From outside the cluster; from everywhere unless the row has [`LbFlags2::TWO_SCOPES`].
    #[default]
    External = 0,
    /// From inside the cluster.
    Internal = 1,
}

/// Value of both maps.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct LbRow {
    /// In a slot the id of its backend. In slot 0 the [`LbAlgorithm`] in the upper 8 bits and for
    /// how many seconds a client keeps its backend in the others.
    pub backend: u32,
    /// Backends that are used, in slots 1 to `count`; zero in a slot.
    pub count: u16,
    /// Service id, which is also the key of its address in the maps of reverse translation.
    pub rev_nat: Be16,
    /// A set of [`LbFlags`].
    pub flags: u8,
    /// A set of [`LbFlags2`].
    pub flags2: u8,
    /// Backends that are quarantined, in the slots behind.
    pub qcount: u16,
}

impl LbRow {
    /// Longest time in seconds that a client keeps its backend.
    pub const AFFINITY_MAX: u32 = 0xff_ffff;

    /// Slot 0's word of an algorithm, and of how many seconds a client keeps its backend (at most
    /// [`Self::AFFINITY_MAX`]).
    pub const fn choice(algorithm: LbAlgorithm, affinity: u32) -> u32 {
        let affinity = if affinity > Self::AFFINITY_MAX { Self::AFFINITY_MAX } else { affinity };
        (algorithm as u32) << 24 | affinity
    }

    /// Seconds that a client keeps its backend, of slot 0.
    pub const fn affinity_timeout(&self) -> u32 {
        self.backend & Self::AFFINITY_MAX
    }

    /// How backends are chosen, of slot 0; `None` for a number that is not known.
    pub const fn algorithm(&self) -> Option<LbAlgorithm> {
        match self.backend >> 24 {
            1 => Some(LbAlgorithm::Random),
            2 => Some(LbAlgorithm::Maglev),
            _ => None,
        }
    }
}

/// How a backend is chosen for a new connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum LbAlgorithm {
    /// Any of them, whatever the connection.
    Random = 1,
    /// By a table that every node computes alike, and by the connection's ends.
    Maglev = 2,
}

/// Bits of [`LbRow::flags`].
#[derive(Clone, Copy, Debug)]
pub struct LbFlags;

impl LbFlags {
    /// The address is one of the service's external ones.
    pub const EXTERNAL_IP: u8 = 1;
    /// The port is open on the node's addresses.
    pub const NODE_PORT: u8 = 2;
    /// From outside only backends of this node are used.
    pub const EXTERNAL_LOCAL: u8 = 4;
    /// The port belongs to a pod of this node.
    pub const HOST_PORT: u8 = 8;
    /// A client keeps its backend for a while.
    pub const AFFINITY: u8 = 16;
    /// The address is a load balancer's.
    pub const LOAD_BALANCER: u8 = 32;
    /// The address may be used from outside the cluster.
    pub const ROUTABLE: u8 = 64;
    /// Clients from outside must be in a source range.
    pub const SOURCE_RANGE: u8 = 128;
}

/// Bits of [`LbRow::flags2`].
#[derive(Clone, Copy, Debug)]
pub struct LbFlags2;

impl LbFlags2 {
    /// Traffic goes to a pod of this node instead.
    pub const LOCAL_REDIRECT: u8 = 1;
    /// Frontend and backends are of different families.
    pub const NAT_46X64: u8 = 2;
    /// A proxy looks at the traffic.
    pub const L7: u8 = 4;
    /// The address is a loopback one, or who else serves it is asked.
    pub const LOOPBACK: u8 = 8;
    /// From inside only backends of this node are used.
    pub const INTERNAL_LOCAL: u8 = 16;
    /// There is a row for each [`LbScope`].
    pub const TWO_SCOPES: u8 = 32;
    /// In slot 0: clients must be in no source range. In a slot: the backend is quarantined.
    pub const QUARANTINED_OR_DENY_RANGE: u8 = 64;
    /// The backend answers the client directly.
    pub const DIRECT_RETURN: u8 = 128;
}

/// The one value of `volvox_lb`: ids that were never given to anything yet. Only the agent reads it.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct LbNumbersRow {
    /// The next backend id.
    pub next_backend: u32,
    /// The next service id.
    pub next_service: u32,
    /// Zero.
    pub reserved: [u32; 6],
}

const _: () = {
    assert!(size_of::<v4::SlotKey>() == 12);
    assert!(offset_of!(v4::SlotKey, slot) == 6);
    assert!(offset_of!(v4::SlotKey, scope) == 9);
    assert!(size_of::<v6::SlotKey>() == 24);
    assert!(offset_of!(v6::SlotKey, slot) == 18);
    assert!(offset_of!(v6::SlotKey, scope) == 21);
    assert!(size_of::<LbRow>() == 12);
    assert!(offset_of!(LbRow, rev_nat) == 6);
    assert!(offset_of!(LbRow, flags2) == 9);
    assert!(offset_of!(LbRow, qcount) == 10);
    assert!(size_of::<LbNumbersRow>() == 32);
};
