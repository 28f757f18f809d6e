//! `volvox_device`: what the programs know of a device of the node that leads to other machines.

use std::mem::{offset_of, size_of};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Value of `volvox_device`; the key is the interface index. A device without a row passes all
/// packets as they are.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct DeviceRow {
    /// IPv4 address that stands for others behind the device; zero if nothing does.
    pub ipv4: [u8; 4],
    /// IPv6 address that stands for others behind the device; zero if nothing does.
    pub ipv6: [u8; 16],
    /// The device's own MAC address.
    pub mac: [u8; 6],
    /// A set of [`DeviceFlags`].
    pub flags: u16,
    /// Interface index, equal to the row's key.
    pub ifindex: u32,
    /// Zero.
    pub reserved: [u32; 4],
}

/// Bits of [`DeviceRow::flags`].
#[derive(Clone, Copy, Debug)]
pub struct DeviceFlags;

impl DeviceFlags {
    /// What endpoints send over IPv4 to outside the cluster gets the device's address.
    pub const MASQUERADE_IPV4: u16 = 1;
    /// What endpoints send over IPv6 to outside the cluster gets the device's address.
    pub const MASQUERADE_IPV6: u16 = 2;
    /// Trace records are written.
    pub const TRACE_NOTIFY: u16 = 4;
    /// Drop records are written.
    pub const DROP_NOTIFY: u16 = 8;
}

const _: () = {
    assert!(size_of::<DeviceRow>() == 48);
    assert!(offset_of!(DeviceRow, ipv6) == 4);
    assert!(offset_of!(DeviceRow, mac) == 20);
    assert!(offset_of!(DeviceRow, flags) == 26);
    assert!(offset_of!(DeviceRow, ifindex) == 28);
    assert!(offset_of!(DeviceRow, reserved) == 32);
};
