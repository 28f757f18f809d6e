//! Who may use a service, and which backend a client keeps: `cilium_lb4_source_range`,
//! `cilium_lb4_affinity`, their IPv6 twins, and `cilium_lb_affinity_match`.

use super::{Be16, families::families};
use std::mem::{offset_of, size_of};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Bits in front of the address that every key of a service matches.
const RANGE_STATIC_BITS: u32 = 32;

families! {
    /// Key of a family's map of affinity: a client and a service.
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
    pub struct AffinityKey {
        /// The client's address in the first bytes, or the cookie of its network namespace.
        pub client: Client,
        /// Service id.
        pub rev_nat: Be16,
        /// Bit 0: the client is a cookie.
        pub netns_cookie: u8,
        /// Zero.
        pub pad1: u8,
        /// Zero.
        pub pad2: u32,
    }

    impl AffinityKey {
        /// The key of a client that is known by its address.
        pub fn of_address(client: Ip, rev_nat: u16) -> Self {
            let (octets, mut bytes) = (client.octets(), Client::default());
            bytes[..octets.len()].copy_from_slice(&octets);
            Self { client: bytes, rev_nat: Be16::new(rev_nat), ..Self::default() }
        }
    }

    /// Key of a family's map of source ranges: clients of a service. The value is a byte that says nothing.
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
    pub struct SourceRangeKey {
        /// 32 bits of the service plus the prefix length of the address.
        pub prefix_len: u32,
        /// Service id.
        pub rev_nat: Be16,
        /// Zero.
        pub pad: u16,
        /// Addresses of clients.
        pub address: Address,
    }

    impl SourceRangeKey {
        /// The clients of a service in `address/bits`. Bits behind the prefix are kept as given.
        pub fn new(rev_nat: u16, address: Ip, bits: u8) -> Self {
            Self {
                prefix_len: RANGE_STATIC_BITS + u32::from(bits),
                rev_nat: Be16::new(rev_nat),
                pad: 0,
                address: address.octets(),
            }
        }
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

const _: () = {
    assert!(size_of::<v4::AffinityKey>() == 16);
    assert!(offset_of!(v4::AffinityKey, netns_cookie) == 10);
    assert!(size_of::<v6::AffinityKey>() == 24);
    assert!(offset_of!(v6::AffinityKey, netns_cookie) == 18);
    assert!(size_of::<AffinityRow>() == 16);
    assert!(offset_of!(AffinityRow, backend) == 8);
    assert!(size_of::<AffinityMatchKey>() == 8);
    assert!(size_of::<v4::SourceRangeKey>() == 12);
    assert!(size_of::<v6::SourceRangeKey>() == 24);
    assert!(offset_of!(v6::SourceRangeKey, address) == 8);
};
