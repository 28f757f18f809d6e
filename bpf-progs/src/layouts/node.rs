//! `volvox_node`: what the programs and the next agent know of the node.

use super::Be16;
use std::mem::{offset_of, size_of};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The one value of `volvox_node`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct NodeRow {
    /// IPv4 gateway address of the endpoints; zero if there is none.
    pub router_ipv4: [u8; 4],
    /// IPv6 gateway address, answered in neighbour discovery; zero if there is none.
    pub router_ipv6: [u8; 16],
    /// MAC address of the router.
    pub router_mac: [u8; 6],
    /// Zero.
    pub pad: u16,
    /// Zero.
    pub flags: u32,
    /// SHA-256 of the object whose programs are attached.
    pub build_hash: [u8; 32],
    /// Feature set that the programs were loaded with.
    pub features: u64,
    /// Stands for what balances load by socket, and where; 0 if nothing does. Only the agent reads
    /// it.
    pub sockets: u64,
    /// Interface index of the overlay's device; 0 if there is no overlay.
    pub tunnel_ifindex: u32,
    /// Those of [`DeviceFlags`](super::DeviceFlags) that say which records are written of what comes
    /// from the overlay.
    pub tunnel_flags: u32,
    /// UDP port of the overlay's outer packets, which no policy and no service concerns; 0 if it
    /// is not told.
    pub tunnel_port: Be16,
    /// Zero.
    pub pad1: u16,
    /// Zero.
    pub reserved: [u32; 9],
}

const _: () = {
    assert!(size_of::<NodeRow>() == 128);
    assert!(offset_of!(NodeRow, router_ipv6) == 4);
    assert!(offset_of!(NodeRow, router_mac) == 20);
    assert!(offset_of!(NodeRow, flags) == 28);
    assert!(offset_of!(NodeRow, build_hash) == 32);
    assert!(offset_of!(NodeRow, features) == 64);
    assert!(offset_of!(NodeRow, sockets) == 72);
    assert!(offset_of!(NodeRow, tunnel_ifindex) == 80);
    assert!(offset_of!(NodeRow, tunnel_port) == 88);
};

impl Default for NodeRow {
    fn default() -> Self {
        zerocopy::FromZeros::new_zeroed()
    }
}
