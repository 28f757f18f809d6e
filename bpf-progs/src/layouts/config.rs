//! `volvox_config`: what the programs know of the endpoint behind an interface.

use std::mem::{offset_of, size_of};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Value of `volvox_config`; the key is the host-side interface index.
///
/// Replacing one row flips an endpoint's policy and configuration together. The programs copy the
/// fields and then check `ifindex`, because a freed row may be reused while it is read.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ConfigRow {
    /// Counts the changes of this endpoint's realised state.
    pub generation: u32,
    /// Endpoint id.
    pub ep_id: u16,
    /// A set of [`ConfigFlags`].
    pub flags: u16,
    /// Security identity of the endpoint.
    pub identity: u32,
    /// Row of `volvox_policy` that holds the policy in force.
    pub policy_slot: u32,
    /// Host-side interface index, equal to the row's key.
    pub ifindex: u32,
    /// The endpoint's IPv4 address; zero if it has none.
    pub ipv4: [u8; 4],
    /// The endpoint's IPv6 address; zero if it has none.
    pub ipv6: [u8; 16],
    /// MAC address inside the container.
    pub mac: [u8; 6],
    /// Zero.
    pub pad0: u16,
    /// MAC address of the host side, the gateway that the container sees.
    pub node_mac: [u8; 6],
    /// Zero.
    pub pad1: u16,
    /// Zero.
    pub reserved: u64,
}

const _: () = {
    assert!(size_of::<ConfigRow>() == 64);
    assert!(offset_of!(ConfigRow, policy_slot) == 12);
    assert!(offset_of!(ConfigRow, ifindex) == 16);
    assert!(offset_of!(ConfigRow, ipv6) == 24);
    assert!(offset_of!(ConfigRow, mac) == 40);
    assert!(offset_of!(ConfigRow, node_mac) == 48);
    assert!(offset_of!(ConfigRow, reserved) == 56);
};

/// Key of the row of the node itself, an endpoint without an interface: the index of the node's
/// loopback interface, at which no program runs. Of the row its numbers, flags and policy count.
pub const HOST_IFINDEX: u32 = 1;

/// Bits of [`ConfigRow::flags`].
#[derive(Clone, Copy, Debug)]
pub struct ConfigFlags;

impl ConfigFlags {
    /// Packets must carry the endpoint's own source address.
    pub const SOURCE_CHECK: u16 = 1;
    /// Trace records are written.
    pub const TRACE_NOTIFY: u16 = 2;
    /// Policy verdict records are written.
    pub const VERDICT_NOTIFY: u16 = 4;
    /// Drop records are written.
    pub const DROP_NOTIFY: u16 = 8;
    /// Trace records are written of packets that go on, not of those that come in.
    pub const AGGREGATE_ARRIVALS: u16 = 16;
    /// Trace records of a connection are written now and then, not of every packet.
    pub const AGGREGATE_CONNECTIONS: u16 = 32;
    /// Its interface is of another plugin, which resolves neighbours and delivers.
    pub const CHAINED: u16 = 64;
}
