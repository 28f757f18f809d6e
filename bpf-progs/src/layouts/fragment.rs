//! `cilium_ipv4_frag_datagrams` and `cilium_ipv6_frag_datagrams`: ports of datagrams that come in
//! fragments, of which only the first one has them.

use super::Be16;
use std::mem::{offset_of, size_of};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Key of the IPv4 map: what all fragments of a datagram have in common.
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
pub struct Fragment4Key {
    /// Receiver.
    pub daddr: [u8; 4],
    /// Sender.
    pub saddr: [u8; 4],
    /// Number that the sender gave the datagram.
    pub id: Be16,
    /// IP protocol.
    pub protocol: u8,
    /// Zero.
    pub pad: u8,
}

/// Key of the IPv6 map; see [`Fragment4Key`].
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
pub struct Fragment6Key {
    /// Number that the sender gave the datagram, in network order.
    pub id: [u8; 4],
    /// IP protocol.
    pub protocol: u8,
    /// Zero.
    pub pad: [u8; 3],
    /// Receiver.
    pub daddr: [u8; 16],
    /// Sender.
    pub saddr: [u8; 16],
}

/// Value of both maps: the ports in the first fragment.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct FragmentRow {
    /// Of the sender.
    pub sport: Be16,
    /// Of the receiver.
    pub dport: Be16,
}

const _: () = {
    assert!(size_of::<Fragment4Key>() == 12);
    assert!(offset_of!(Fragment4Key, protocol) == 10);
    assert!(size_of::<Fragment6Key>() == 40);
    assert!(offset_of!(Fragment6Key, daddr) == 8);
    assert!(size_of::<FragmentRow>() == 4);
};
