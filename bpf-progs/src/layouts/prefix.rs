//! `cilium_ipmasq_v4` and `cilium_ipmasq_v6`: destinations to which endpoints keep their addresses.

use std::mem::{offset_of, size_of};
use std::net::{Ipv4Addr, Ipv6Addr};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Key of `cilium_ipmasq_v4`; the value is one byte, zero.
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
pub struct Prefix4Key {
    /// Length of the prefix in bits.
    pub prefix_len: u32,
    /// Address.
    pub address: [u8; 4],
}

/// Key of `cilium_ipmasq_v6`; the value is one byte, zero.
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
pub struct Prefix6Key {
    /// Length of the prefix in bits.
    pub prefix_len: u32,
    /// Address.
    pub address: [u8; 16],
}

impl Prefix4Key {
    /// The key of `address/bits`. Bits behind the prefix are kept as given.
    pub fn new(address: Ipv4Addr, bits: u8) -> Self {
        Self { prefix_len: bits.into(), address: address.octets() }
    }
}

impl Prefix6Key {
    /// The key of `address/bits`. Bits behind the prefix are kept as given.
    pub fn new(address: Ipv6Addr, bits: u8) -> Self {
        Self { prefix_len: bits.into(), address: address.octets() }
    }
}

const _: () = {
    assert!(size_of::<Prefix4Key>() == 8);
    assert!(offset_of!(Prefix4Key, address) == 4);
    assert!(size_of::<Prefix6Key>() == 20);
    assert!(offset_of!(Prefix6Key, address) == 4);
};
