//! `cilium_snat_v4_external` and `cilium_snat_v6_external`: whom the node's addresses stand for.
//!
//! A flow has two rows: [`TupleFlags::OUT`](super::TupleFlags::OUT) says what its source becomes,
//! [`TupleFlags::IN`](super::TupleFlags::IN) what the destination of its answers becomes.

use super::{Be16, families::families};
use std::mem::{offset_of, size_of};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

families! {
    /// Key of a family's map: a packet before it is translated. Unlike the keys of connection tracking it
    /// holds source and destination as the packet has them.
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
    pub struct NatKey {
        /// Destination address.
        pub daddr: Address,
        /// Source address.
        pub saddr: Address,
        /// Destination port; the identifier of an ICMP echo's reply, 0 of its request.
        pub dport: Be16,
        /// Source port; the identifier of an ICMP echo, 0 of its reply.
        pub sport: Be16,
        /// IP protocol.
        pub protocol: u8,
        /// A number of [`TupleFlags`](crate::layouts::TupleFlags): `OUT` or `IN`.
        pub flags: u8,
    }

    /// Value of a family's map.
    #[repr(C)]
    #[derive(
        Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
    )]
    pub struct NatRow {
        /// Second of the monotonic clock in which the row was made.
        pub created: u64,
        /// 1 if the flow is the node's own, so that its entry of connection tracking is made together
        /// with this row; 0 if it is there anyway.
        pub needs_ct: u64,
        /// Second in which the row of the other direction was last seen. Only the programs read it.
        pub checked: u64,
        /// In the row of answers, the service by which the flow's opener asked, in network order; 0 if by none. Only
        /// the programs read it.
        pub rev_nat: u64,
        /// Address that the end becomes.
        pub address: Address,
        /// Port that the end becomes; the identifier of an ICMP echo.
        pub port: Be16,
        /// Zero.
        pub pad1: Pad,
    }
}

const _: () = {
    assert!(size_of::<v4::NatKey>() == 14);
    assert!(offset_of!(v4::NatKey, dport) == 8);
    assert!(offset_of!(v4::NatKey, flags) == 13);
    assert!(size_of::<v6::NatKey>() == 38);
    assert!(offset_of!(v6::NatKey, dport) == 32);
    assert!(offset_of!(v6::NatKey, flags) == 37);
    assert!(size_of::<v4::NatRow>() == 40);
    assert!(offset_of!(v4::NatRow, address) == 32);
    assert!(offset_of!(v4::NatRow, port) == 36);
    assert!(size_of::<v6::NatRow>() == 56);
    assert!(offset_of!(v6::NatRow, address) == 32);
    assert!(offset_of!(v6::NatRow, port) == 48);
};
