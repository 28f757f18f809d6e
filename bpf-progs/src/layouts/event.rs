//! Records of `cilium_events`: trace version 2, drop version 3, policy verdict.
//!
//! A sample of the perf ring is one record followed by the first [`EventHeader::len_cap`] bytes of
//! the packet, then padding.

use std::mem::{offset_of, size_of};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The 16 bytes that every record begins with.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct EventHeader {
    /// 1 drop, 4 trace, 5 policy verdict.
    pub kind: u8,
    /// Drop reason or trace point; 0 for a verdict.
    pub subtype: u8,
    /// Endpoint id that reports.
    pub source: u16,
    /// Flow hash of the packet; 0 if nobody computed one.
    pub hash: u32,
    /// Length of the packet in bytes.
    pub len_orig: u32,
    /// Bytes of it that follow the record.
    pub len_cap: u16,
    /// Version of the record.
    pub version: u8,
    /// Version of its extension; 0 for none.
    pub ext_version: u8,
}

/// A packet passed an observation point.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct TraceRecord {
    /// Common part; the subtype is a [`crate::TracePoint`].
    pub header: EventHeader,
    /// Identity of the sender.
    pub src_identity: u32,
    /// Identity of the receiver; 0 if unknown.
    pub dst_identity: u32,
    /// Receiving endpoint; 0 if not local.
    pub dst_ep: u16,
    /// A [`crate::TraceReason`].
    pub reason: u8,
    /// Bit 0: IPv6.
    pub flags: u8,
    /// Interface index that the packet leaves by; 0 if the stack decides.
    pub ifindex: u32,
    /// Sender's address before translation; zero if there was none.
    pub orig_ip: [u8; 16],
    /// Zero.
    pub trace_id: u64,
}

/// A packet was dropped.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct DropRecord {
    /// Common part; the subtype is a [`crate::DropReason`].
    pub header: EventHeader,
    /// Identity of the sender.
    pub src_identity: u32,
    /// Identity of the receiver; 0 if unknown.
    pub dst_identity: u32,
    /// Receiving endpoint; 0 if not local.
    pub dst_ep: u32,
    /// Line of the source that dropped.
    pub line: u16,
    /// Number of that source file.
    pub file: u8,
    /// Error of a helper, if one was the reason.
    pub ext_error: i8,
    /// Interface index where it was dropped.
    pub ifindex: u32,
    /// Bit 0: IPv6.
    pub flags: u8,
    /// Zero.
    pub pad: [u8; 3],
    /// Zero.
    pub trace_id: u64,
}

/// A policy was consulted.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct VerdictRecord {
    /// Common part.
    pub header: EventHeader,
    /// Identity of the peer.
    pub remote_identity: u32,
    /// 0 allowed, above 0 the proxy port, below 0 the drop reason negated.
    pub verdict: i32,
    /// Destination port, or ICMP type, in host order.
    pub dport: u16,
    /// IP protocol.
    pub protocol: u8,
    /// Two bits direction, one IPv6, three kind of match, one audited, one layer-3 device.
    pub bits: u8,
    /// Authentication type.
    pub auth: u8,
    /// Zero.
    pub pad: [u8; 3],
    /// [`super::PolicyRow::cookie`] of the row that decided; 0 if none did.
    pub cookie: u32,
    /// Zero.
    pub pad1: u32,
}

impl VerdictRecord {
    /// Whether the policy was that of the egress direction.
    pub const fn is_egress(&self) -> bool {
        self.bits & 3 == super::Direction::Egress as u8
    }

    /// Whether the packet was IPv6.
    pub const fn is_ipv6(&self) -> bool {
        self.bits & 4 != 0
    }

    /// What matched: 0 nothing, 1 peer, 2 peer and port, 3 port, 4 everything, 5 peer and
    /// protocol, 6 protocol.
    pub const fn match_kind(&self) -> u8 {
        self.bits >> 3 & 7
    }
}

const _: () = {
    assert!(size_of::<EventHeader>() == 16);
    assert!(offset_of!(EventHeader, len_cap) == 12);
    assert!(offset_of!(EventHeader, version) == 14);
    assert!(size_of::<TraceRecord>() == 56);
    assert!(offset_of!(TraceRecord, dst_ep) == 24);
    assert!(offset_of!(TraceRecord, reason) == 26);
    assert!(offset_of!(TraceRecord, ifindex) == 28);
    assert!(offset_of!(TraceRecord, orig_ip) == 32);
    assert!(offset_of!(TraceRecord, trace_id) == 48);
    assert!(size_of::<DropRecord>() == 48);
    assert!(offset_of!(DropRecord, line) == 28);
    assert!(offset_of!(DropRecord, file) == 30);
    assert!(offset_of!(DropRecord, ifindex) == 32);
    assert!(offset_of!(DropRecord, trace_id) == 40);
    assert!(size_of::<VerdictRecord>() == 40);
    assert!(offset_of!(VerdictRecord, verdict) == 20);
    assert!(offset_of!(VerdictRecord, dport) == 24);
    assert!(offset_of!(VerdictRecord, bits) == 27);
    assert!(offset_of!(VerdictRecord, cookie) == 32);
};

/// One sample of the ring, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// A dropped packet and its first bytes.
    Drop(DropRecord, &'a [u8]),
    /// A traced packet and its first bytes.
    Trace(TraceRecord, &'a [u8]),
    /// A policy verdict and the packet's first bytes.
    Verdict(VerdictRecord, &'a [u8]),
}

impl<'a> Record<'a> {
    /// Kind byte of a drop.
    pub const DROP: u8 = 1;
    /// Kind byte of a trace.
    pub const TRACE: u8 = 4;
    /// Kind byte of a verdict.
    pub const VERDICT: u8 = 5;

    /// Reads a sample. `None` if it is too short or of a kind or version that is not written here.
    pub fn parse(sample: &'a [u8]) -> Option<Self> {
        let (header, _) = EventHeader::read_from_prefix(sample).ok()?;
        let captured = |rest: &'a [u8]| &rest[..rest.len().min(usize::from(header.len_cap))];
        match (header.kind, header.version) {
            (Self::DROP, 3) => DropRecord::read_from_prefix(sample)
                .ok()
                .map(|(r, rest)| Self::Drop(r, captured(rest))),
            (Self::TRACE, 2) => TraceRecord::read_from_prefix(sample)
                .ok()
                .map(|(r, rest)| Self::Trace(r, captured(rest))),
            (Self::VERDICT, _) => VerdictRecord::read_from_prefix(sample)
                .ok()
                .map(|(r, rest)| Self::Verdict(r, captured(rest))),
            _ => None,
        }
    }
}
