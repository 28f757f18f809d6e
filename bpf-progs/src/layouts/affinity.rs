//! Who may use a service, and which backend a client keeps: `cilium_lb4_source_range`,
//! `cilium_lb4_affinity`, their IPv6 twins, and `cilium_lb_affinity_match`.

use super::Be16;
use std::mem::{offset_of, size_of};
use std::net::{Ipv4Addr, Ipv6Addr};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Key of `cilium_lb4_affinity`: a client and a service.
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
pub struct Affinity4Key {
    /// The client's address in the first four bytes, or the cookie of its network namespace.
    pub client: [u8; 8],
    /// Service id.
    pub rev_nat: Be16,
    /// Bit 0: the client is a cookie.
    pub netns_cookie: u8,
    /// Zero.
    pub pad1: u8,
    /// Zero.
    pub pad2: u32,
}

/// Key of `cilium_lb6_affinity`: a client and a service.
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
pub struct Affinity6Key {
    /// The client's address, or in the first eight bytes the cookie of its network namespace.
    pub client: [u8; 16],
    /// Service id.
    pub rev_nat: Be16,
    /// Bit 0: the client is a cookie.
    pub netns_cookie: u8,
    /// Zero.
    pub pad1: u8,
    /// Zero.
    pub pad2: u32,
}

impl Affinity4Key {
    /// The key of a client that is known by its address.
    pub fn of_address(client: Ipv4Addr, rev_nat: u16) -> Self {
        let mut bytes = [0; 8];
        bytes[..4].copy_from_slice(&client.octets());
        Self { client: bytes, rev_nat: Be16::new(rev_nat), ..Self::default() }
    }
}

impl Affinity6Key {
    /// The key of a client that is known by its address.
    pub fn of_address(client: Ipv6Addr, rev_nat: u16) -> Self {
        Self { client: client.octets(), rev_nat: Be16::new(rev_nat), ..Self::default() }
    }
}

/// Value of both maps: the backend that a client had.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct AffinityRow {
    /// Second of the monotonic clock in which the client used the service last.
    pub last_used: u64,
    /// Id of the backend.
    pub backend: u32,
    /// Zero.
    pub pad: u32,
}

/// Key of `cilium_lb_affinity_match`: a backend that a service has. The value is a byte that says
/// nothing.
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
pub struct AffinityMatchKey {
    /// Id of the backend.
    pub backend: u32,
    /// Service id.
    pub rev_nat: Be16,
    /// Zero.
    pub pad: u16,
}

impl AffinityMatchKey {
    /// The key of a service's backend.
    pub fn new(backend: u32, rev_nat: u16) -> Self {
        Self { backend, rev_nat: Be16::new(rev_nat), pad: 0 }
    }
}

/// Bits in front of the address that every key of a service matches.
const RANGE_STATIC_BITS: u32 = 32;

/// Key of `cilium_lb4_source_range`: clients of a service. The value is a byte that says nothing.
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
pub struct SourceRange4Key {
    /// 32 bits of the service plus the prefix length of the address.
    pub prefix_len: u32,
    /// Service id.
    pub rev_nat: Be16,
    /// Zero.
    pub pad: u16,
    /// Addresses of clients.
    pub address: [u8; 4],
}

/// Key of `cilium_lb6_source_range`; see [`SourceRange4Key`].
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
pub struct SourceRange6Key {
    /// 32 bits of the service plus the prefix length of the address.
    pub prefix_len: u32,
    /// Service id.
    pub rev_nat: Be16,
    /// Zero.
    pub pad: u16,
    /// Addresses of clients.
    pub address: [u8; 16],
}

impl SourceRange4Key {
    /// The clients of a service in `address/bits`. Bits behind the prefix are kept as given.
    pub fn new(rev_nat: u16, address: Ipv4Addr, bits: u8) -> Self {
        Self {
            prefix_len: RANGE_STATIC_BITS + u32::from(bits),
            rev_nat: Be16::new(rev_nat),
            pad: 0,
            address: address.octets(),
        }
    }
}

impl SourceRange6Key {
    /// The clients of a service in `address/bits`. Bits behind the prefix are kept as given.
    pub fn new(rev_nat: u16, address: Ipv6Addr, bits: u8) -> Self {
        Self {
            prefix_len: RANGE_STATIC_BITS + u32::from(bits),
            rev_nat: Be16::new(rev_nat),
            pad: 0,
            address: address.octets(),
        }
    }
}

const _: () = {
    assert!(size_of::<Affinity4Key>() == 16);
    assert!(offset_of!(Affinity4Key, netns_cookie) == 10);
    assert!(size_of::<Affinity6Key>() == 24);
    assert!(offset_of!(Affinity6Key, netns_cookie) == 18);
    assert!(size_of::<AffinityRow>() == 16);
    assert!(offset_of!(AffinityRow, backend) == 8);
    assert!(size_of::<AffinityMatchKey>() == 8);
    assert!(size_of::<SourceRange4Key>() == 12);
    assert!(size_of::<SourceRange6Key>() == 24);
    assert!(offset_of!(SourceRange6Key, address) == 8);
};
