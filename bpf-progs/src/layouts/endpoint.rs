//! `volvox_endpoint`: what no map of Cilium holds of an endpoint, to rebuild a lost state file.

use std::mem::{offset_of, size_of};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

/// Value of `volvox_endpoint`; the key is the endpoint id as `u32`. Texts are NUL-padded UTF-8.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct EndpointRow {
    /// Container id in hexadecimal.
    pub container_id: [u8; 80],
    /// Name of the interface inside the container.
    pub container_ifname: [u8; 16],
    /// Name of the host-side interface.
    pub host_ifname: [u8; 16],
    /// Host-side interface index.
    pub ifindex: u32,
    /// Security identity.
    pub identity: u32,
    /// Cookie of the container's network namespace; 0 if unknown.
    pub netns_cookie: u64,
    /// IPv4 address; zero if none.
    pub ipv4: [u8; 4],
    /// IPv6 address; zero if none.
    pub ipv6: [u8; 16],
    /// MAC address inside the container.
    pub mac: [u8; 6],
    /// MAC address of the host side.
    pub node_mac: [u8; 6],
    /// Kubernetes namespace.
    pub namespace: [u8; 64],
    /// First 200 bytes of the pod's name.
    pub pod_name: [u8; 200],
    /// UID of the pod.
    pub uid: [u8; 40],
    /// Options that were set for it alone; zero if none.
    pub own_options: u32,
    /// 1 if its state file is older than this row, for it could not be written.
    pub unsaved: u8,
    /// 1 if its interface and addresses are of another plugin.
    pub chained: u8,
    /// Zero.
    pub reserved: [u8; 38],
    /// CRC-32 (IEEE) of the bytes before it.
    pub crc32: u32,
}

const _: () = {
    assert!(size_of::<EndpointRow>() == 512);
    assert!(offset_of!(EndpointRow, ifindex) == 112);
    assert!(offset_of!(EndpointRow, netns_cookie) == 120);
    assert!(offset_of!(EndpointRow, ipv4) == 128);
    assert!(offset_of!(EndpointRow, mac) == 148);
    assert!(offset_of!(EndpointRow, namespace) == 160);
    assert!(offset_of!(EndpointRow, pod_name) == 224);
    assert!(offset_of!(EndpointRow, uid) == 424);
    assert!(offset_of!(EndpointRow, own_options) == 464);
    assert!(offset_of!(EndpointRow, unsaved) == 468);
    assert!(offset_of!(EndpointRow, crc32) == EndpointRow::CHECKED_BYTES);
};

impl EndpointRow {
    /// Length in bytes of what [`EndpointRow::crc32`] covers.
    pub const CHECKED_BYTES: usize = 508;
}

impl Default for EndpointRow {
    fn default() -> Self {
        Self::new_zeroed()
    }
}
