//! `cilium_ct4_global`, `cilium_ct_any4_global` and their IPv6 twins: connection tracking.

use super::{Be16, families::families};
use std::mem::{offset_of, size_of};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

families! {
    /// Key of the maps of a family. As in Cilium the addresses are stored reversed: `daddr` holds the address
    /// of the side that opened the connection, while `dport` is the port it connected to.
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
    pub struct CtKey {
        /// Address that opened the connection.
        pub daddr: Address,
        /// Address that was connected to.
        pub saddr: Address,
        /// Port that was connected to; 0 for an ICMP echo.
        pub dport: Be16,
        /// Port of the opener; the identifier of an ICMP echo.
        pub sport: Be16,
        /// IP protocol.
        pub protocol: u8,
        /// A set of [`TupleFlags`].
        pub flags: u8,
    }
}

/// Bits of a connection tracking key's flags.
#[derive(Clone, Copy, Debug)]
pub struct TupleFlags;

impl TupleFlags {
    /// The endpoint opened the connection.
    pub const OUT: u8 = 0;
    /// The connection was opened towards the endpoint.
    pub const IN: u8 = 1;
    /// ICMP errors about a connection (written by Cilium only; Volvox reads the packet inside).
    pub const RELATED: u8 = 2;
    /// A connection to a service.
    pub const SERVICE: u8 = 4;
}

/// Value of the connection tracking maps.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct CtRow {
    /// In service entries the id of the backend, as an integer of 4 bytes at offset 8. With
    /// [`CtFlags::DSR`] the address that the client asked, IPv4 in the first four bytes.
    pub nat_addr: [u8; 16],
    /// Unused: packets are not accounted.
    pub packets: u64,
    /// Unused: bytes are not accounted.
    pub bytes: u64,
    /// Second of the monotonic clock after which the entry may be collected.
    pub lifetime: u32,
    /// A set of [`CtFlags`].
    pub flags: u16,
    /// Id of the service that the connection was translated for; 0 for none.
    pub rev_nat_index: Be16,
    /// Port to translate to: with [`CtFlags::DSR`] the one that the client asked, with [`CtFlags::MOVED`]
    /// his own. In service entries the one by which the backend knows him instead; 0 if by his own.
    pub nat_port: Be16,
    /// TCP flags seen from the endpoint, as in byte 13 of the header.
    pub tx_flags_seen: u8,
    /// TCP flags seen towards the endpoint.
    pub rx_flags_seen: u8,
    /// Identity of the side that opened the connection.
    pub src_sec_id: u32,
    /// Second in which a packet from the endpoint was last reported.
    pub last_tx_report: u32,
    /// Second in which a packet towards the endpoint was last reported.
    pub last_rx_report: u32,
}

/// Bits of [`CtRow::flags`].
#[derive(Clone, Copy, Debug)]
pub struct CtFlags;

impl CtFlags {
    /// A FIN or RST came towards the endpoint.
    pub const RX_CLOSING: u16 = 1;
    /// A FIN or RST came from the endpoint.
    pub const TX_CLOSING: u16 = 2;
    /// An endpoint speaks with itself by a service; the opener's address is a stand-in.
    pub const LOOPBACK: u16 = 8;
    /// A packet without SYN was seen: the connection is more than an attempt.
    pub const SEEN_NON_SYN: u16 = 16;
    /// The connection came by a service from outside, to whose address replies are translated back.
    pub const NODE_PORT: u16 = 32;
    /// The client sees another node's service. In the entry of the node that he asked, that the backend
    /// answers him itself; in the backend's, that [`CtRow::nat_addr`] and [`CtRow::nat_port`] are what
    /// he asked.
    pub const DSR: u16 = 128;
    /// The client's own port is another, [`CtRow::nat_port`]: he uses it towards another node too, and the
    /// backend must know the two connections apart.
    pub const MOVED: u16 = 16384;
    /// The node itself only answers: the entry keeps its port from others, and permits nothing.
    pub const ANSWERS: u16 = 32768;
}

const _: () = {
    assert!(size_of::<v4::CtKey>() == 14);
    assert!(offset_of!(v4::CtKey, dport) == 8);
    assert!(offset_of!(v4::CtKey, flags) == 13);
    assert!(size_of::<v6::CtKey>() == 38);
    assert!(offset_of!(v6::CtKey, dport) == 32);
    assert!(offset_of!(v6::CtKey, flags) == 37);
    assert!(size_of::<CtRow>() == 56);
    assert!(offset_of!(CtRow, lifetime) == 32);
    assert!(offset_of!(CtRow, rev_nat_index) == 38);
    assert!(offset_of!(CtRow, nat_port) == 40);
    assert!(offset_of!(CtRow, src_sec_id) == 44);
    assert!(offset_of!(CtRow, last_rx_report) == 52);
};
