//! `cilium_ipcache_v2`: the identity behind an address or prefix, cluster-wide.

use super::{FAMILY_IPV4, FAMILY_IPV6, address_bytes, address_from};
use std::mem::{offset_of, size_of};
use std::net::IpAddr;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Bits in front of the address that every key matches: cluster, pad, family.
const STATIC_PREFIX_BITS: u32 = 32;

/// Key of `cilium_ipcache_v2`.
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
pub struct IpcacheKey {
    /// 32 static bits plus the prefix length of the address.
    pub prefix_len: u32,
    /// Cluster id, zero for this cluster.
    pub cluster_id: u16,
    /// Zero.
    pub pad: u8,
    /// 1 for IPv4, 2 for IPv6.
    pub family: u8,
    /// IPv4 in the first four bytes, or IPv6.
    pub address: [u8; 16],
}

impl IpcacheKey {
    /// The key of `address/bits` in this cluster. Bits behind the prefix are kept as given.
    pub fn new(address: IpAddr, bits: u8) -> Self {
        let (address, family) = address_bytes(address);
        Self {
            prefix_len: STATIC_PREFIX_BITS + u32::from(bits),
            cluster_id: 0,
            pad: 0,
            family,
            address,
        }
    }

    /// The address and its prefix length in bits; `None` if the key is not one of ours.
    pub fn prefix(&self) -> Option<(IpAddr, u8)> {
        let bits = u8::try_from(self.prefix_len.checked_sub(STATIC_PREFIX_BITS)?).ok()?;
        let longest = match self.family {
            FAMILY_IPV4 => 32,
            FAMILY_IPV6 => 128,
            _ => return None,
        };
        (bits <= longest).then_some((address_from(self.address, self.family)?, bits))
    }
}

/// Value of `cilium_ipcache_v2`.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct IpcacheRow {
    /// Security identity.
    pub identity: u32,
    /// Node to tunnel to; zero if none. IPv4 in the first four bytes.
    pub tunnel_endpoint: [u8; 16],
    /// Zero.
    pub pad: [u8; 2],
    /// Index of the encryption key; zero if none.
    pub key: u8,
    /// A set of [`IpcacheFlags`].
    pub flags: u8,
}

/// Bits of [`IpcacheRow::flags`].
#[derive(Clone, Copy, Debug)]
pub struct IpcacheFlags;

impl IpcacheFlags {
    /// Reached without the overlay, whatever else is said.
    pub const SKIP_TUNNEL: u8 = 1;
    /// [`IpcacheRow::tunnel_endpoint`] is the node that it is behind.
    pub const HAS_TUNNEL_ENDPOINT: u8 = 2;
    /// That node's address is an IPv6 one.
    pub const IPV6_TUNNEL_ENDPOINT: u8 = 4;
    /// It is in another cluster.
    pub const REMOTE_CLUSTER: u8 = 8;
}

const _: () = {
    assert!(size_of::<IpcacheKey>() == 24);
    assert!(offset_of!(IpcacheKey, family) == 7);
    assert!(offset_of!(IpcacheKey, address) == 8);
    assert!(size_of::<IpcacheRow>() == 24);
    assert!(offset_of!(IpcacheRow, key) == 22);
    assert!(offset_of!(IpcacheRow, flags) == 23);
};
