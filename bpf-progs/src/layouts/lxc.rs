//! `cilium_lxc`: the endpoint, if local, behind an address.

use super::{address_bytes, address_from};
use std::mem::{offset_of, size_of};
use std::net::IpAddr;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Key of `cilium_lxc`.
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
pub struct LxcKey {
    /// IPv4 in the first four bytes, or IPv6.
    pub address: [u8; 16],
    /// 1 for IPv4, 2 for IPv6.
    pub family: u8,
    /// Zero.
    pub key: u8,
    /// Cluster id, zero for this cluster.
    pub cluster_id: u16,
}

impl LxcKey {
    /// The key of an address in this cluster.
    pub fn new(address: IpAddr) -> Self {
        let (address, family) = address_bytes(address);
        Self { address, family, key: 0, cluster_id: 0 }
    }

    /// The address, unless the family is unknown.
    pub fn ip(&self) -> Option<IpAddr> {
        address_from(self.address, self.family)
    }
}

/// Value of `cilium_lxc`.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct LxcRow {
    /// Host-side interface index.
    pub ifindex: u32,
    /// Zero.
    pub unused: u16,
    /// Endpoint id.
    pub lxc_id: u16,
    /// A set of [`LxcFlags`].
    pub flags: u32,
    /// Zero.
    pub pad0: u32,
    /// Container MAC address in the first six bytes.
    pub mac: [u8; 8],
    /// Host-side MAC address in the first six bytes.
    pub node_mac: [u8; 8],
    /// Security identity.
    pub sec_id: u32,
    /// Interface index of the parent device, if any.
    pub parent_ifindex: u32,
    /// Zero.
    pub pad1: [u32; 2],
}

const _: () = {
    assert!(size_of::<LxcKey>() == 20);
    assert!(offset_of!(LxcKey, family) == 16);
    assert!(offset_of!(LxcKey, cluster_id) == 18);
    assert!(size_of::<LxcRow>() == 48);
    assert!(offset_of!(LxcRow, lxc_id) == 6);
    assert!(offset_of!(LxcRow, mac) == 16);
    assert!(offset_of!(LxcRow, node_mac) == 24);
    assert!(offset_of!(LxcRow, sec_id) == 32);
    assert!(offset_of!(LxcRow, parent_ifindex) == 36);
};

/// Bits of [`LxcRow::flags`].
#[derive(Clone, Copy, Debug)]
pub struct LxcFlags;

impl LxcFlags {
    /// The address is the node's own.
    pub const HOST: u32 = 1;
    /// The endpoint lives in the host's network namespace.
    pub const AT_HOST_NS: u32 = 2;
    /// Never masquerade this endpoint's IPv4 traffic.
    pub const SKIP_MASQUERADE_V4: u32 = 4;
    /// Never masquerade this endpoint's IPv6 traffic.
    pub const SKIP_MASQUERADE_V6: u32 = 8;
}
