//! `cilium_metrics`: packets and bytes by reason and direction.

use std::mem::{offset_of, size_of};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Direction in [`MetricsKey`], from the endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum MetricsDirection {
    /// Towards the endpoint.
    Ingress = 1,
    /// From the endpoint.
    Egress = 2,
}

/// Key of `cilium_metrics`.
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
pub struct MetricsKey {
    /// 0 forwarded, else a [`crate::DropReason`].
    pub reason: u8,
    /// A [`MetricsDirection`] in the low two bits.
    pub direction: u8,
    /// Line of the source that dropped; 0 when forwarded.
    pub line: u16,
    /// Number of that source file; 0 when forwarded.
    pub file: u8,
    /// Zero.
    pub reserved: [u8; 3],
}

/// Value of `cilium_metrics`, one per CPU.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct MetricsRow {
    /// Packets.
    pub packets: u64,
    /// Bytes, link layer included.
    pub bytes: u64,
}

const _: () = {
    assert!(size_of::<MetricsKey>() == 8);
    assert!(offset_of!(MetricsKey, line) == 2);
    assert!(offset_of!(MetricsKey, file) == 4);
    assert!(size_of::<MetricsRow>() == 16);
};
