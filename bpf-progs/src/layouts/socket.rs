//! What sockets asked for, by the backend that they were given: `volvox_sockets` by socket, and, of
//! what finds no room there, `cilium_lb4_reverse_sk` by socket and backend, and its IPv6 twin.

use super::{Be16, FAMILY_IPV4, FAMILY_IPV6, families::families};
use std::mem::{offset_of, size_of};
use std::net::{IpAddr, SocketAddr};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Notes in a set of `volvox_sockets`.
pub const SOCKET_NOTES: usize = 8;

/// Stands for a socket while its note is written.
pub const NOTE_CLAIMED: u64 = 1 << 63;

/// What `volvox_sockets` notes of a socket.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct SocketNote {
    /// Address of the backend; IPv4 stands in the first four bytes.
    pub backend: [u8; 16],
    /// Address of the service, likewise.
    pub service: [u8; 16],
    /// Port of the backend.
    pub backend_port: Be16,
    /// Port of the service.
    pub service_port: Be16,
    /// Service id.
    pub rev_nat: Be16,
    /// Family of both addresses.
    pub family: u8,
    /// Zero.
    pub pad: u8,
}

impl SocketNote {
    /// The backend; nothing if the note was never written.
    pub fn backend(&self) -> Option<SocketAddr> {
        let [a, b, c, d, ..] = self.backend;
        let address = match self.family {
            FAMILY_IPV4 => IpAddr::from([a, b, c, d]),
            FAMILY_IPV6 => IpAddr::from(self.backend),
            _ => return None,
        };
        Some((address, self.backend_port.get()).into())
    }
}

/// Value of `volvox_sockets`: notes of the sockets that share the key, their set.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct SocketSet {
    /// Whose each note is: the kernel's number of the socket, its cookie; 0 if the note is free, and
    /// [`NOTE_CLAIMED`] while it is written.
    pub sockets: [u64; SOCKET_NOTES],
    /// What is noted.
    pub notes: [SocketNote; SOCKET_NOTES],
}

families! {
    /// Key of `cilium_lb4_reverse_sk` or `cilium_lb6_reverse_sk`: a socket and the backend that it was connected to.
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
    pub struct ReverseSkKey {
        /// The kernel's number of the socket.
        pub cookie: u64,
        /// Address of the backend.
        pub address: Address,
        /// Port of the backend.
        pub port: Be16,
        /// Zero.
        pub pad: Pad,
    }

    /// Value of the same map: what the socket asked for.
    #[repr(C)]
    #[derive(
        Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
    )]
    pub struct ReverseSkRow {
        /// Address of the service.
        pub address: Address,
        /// Port of the service.
        pub port: Be16,
        /// Service id.
        pub rev_nat: Be16,
    }
}

const _: () = {
    assert!(size_of::<SocketNote>() == 40);
    assert!(offset_of!(SocketNote, backend_port) == 32);
    assert!(size_of::<SocketSet>() == 384);
    assert!(offset_of!(SocketSet, notes) == 64);
    assert!(size_of::<v4::ReverseSkKey>() == 16);
    assert!(offset_of!(v4::ReverseSkKey, port) == 12);
    assert!(size_of::<v6::ReverseSkKey>() == 32);
    assert!(offset_of!(v6::ReverseSkKey, port) == 24);
    assert!(size_of::<v4::ReverseSkRow>() == 8);
    assert!(size_of::<v6::ReverseSkRow>() == 20);
};
