//! Records of `cilium_signals`: which table has no room.

use std::mem::{offset_of, size_of};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// What the datapath wants to be heard at once. Padding may follow it in the ring.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct SignalRecord {
    /// [`Self::NAT_FULL`] or [`Self::CT_FULL`].
    pub signal: u32,
    /// Family that it is about, [`Self::IPV4`] or [`Self::IPV6`].
    pub data: u32,
}

impl SignalRecord {
    /// A flow found no port, or only after many were tried.
    pub const NAT_FULL: u32 = 0;
    /// A connection could not be recorded.
    pub const CT_FULL: u32 = 1;
    /// IPv4.
    pub const IPV4: u32 = 0;
    /// IPv6.
    pub const IPV6: u32 = 1;

    /// Reads a sample of the ring. `None` if it is too short.
    pub fn parse(sample: &[u8]) -> Option<Self> {
        Self::read_from_prefix(sample).ok().map(|(record, _)| record)
    }
}

const _: () = {
    assert!(size_of::<SignalRecord>() == 8);
    assert!(offset_of!(SignalRecord, data) == 4);
};
