//! How what backends answer is translated back: `cilium_lb4_reverse_nat` by service,
//! `cilium_lb4_reverse_sk` by socket, and their IPv6 twins.

use super::Be16;
use std::mem::{offset_of, size_of};
use std::net::{SocketAddrV4, SocketAddrV6};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Value of `cilium_lb4_reverse_nat`; the key is the service id, in network order.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ReverseNat4Row {
    /// Address that clients use.
    pub address: [u8; 4],
    /// Port that clients use.
    pub port: Be16,
}

/// Value of `cilium_lb6_reverse_nat`; the key is the service id, in network order.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ReverseNat6Row {
    /// Address that clients use.
    pub address: [u8; 16],
    /// Port that clients use.
    pub port: Be16,
}

impl ReverseNat4Row {
    /// The row of a service that clients reach there.
    pub fn new(frontend: SocketAddrV4) -> Self {
        Self { address: frontend.ip().octets(), port: Be16::new(frontend.port()) }
    }

    /// Address and port that clients use.
    pub fn frontend(&self) -> SocketAddrV4 {
        SocketAddrV4::new(self.address.into(), self.port.get())
    }
}

impl ReverseNat6Row {
    /// The row of a service that clients reach there.
    pub fn new(frontend: SocketAddrV6) -> Self {
        Self { address: frontend.ip().octets(), port: Be16::new(frontend.port()) }
    }

    /// Address and port that clients use.
    pub fn frontend(&self) -> SocketAddrV6 {
        SocketAddrV6::new(self.address.into(), self.port.get(), 0, 0)
    }
}

/// Key of `cilium_lb4_reverse_sk`: a socket and the backend that it was connected to.
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
pub struct ReverseSk4Key {
    /// The kernel's number of the socket.
    pub cookie: u64,
    /// Address of the backend.
    pub address: [u8; 4],
    /// Port of the backend.
    pub port: Be16,
    /// Zero.
    pub pad: u16,
}

/// Key of `cilium_lb6_reverse_sk`; see [`ReverseSk4Key`].
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
pub struct ReverseSk6Key {
    /// The kernel's number of the socket.
    pub cookie: u64,
    /// Address of the backend.
    pub address: [u8; 16],
    /// Port of the backend.
    pub port: Be16,
    /// Zero.
    pub pad: [u8; 6],
}

/// Value of `cilium_lb4_reverse_sk`: what the socket asked for.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ReverseSk4Row {
    /// Address of the service.
    pub address: [u8; 4],
    /// Port of the service.
    pub port: Be16,
    /// Service id.
    pub rev_nat: Be16,
}

/// Value of `cilium_lb6_reverse_sk`; see [`ReverseSk4Row`].
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ReverseSk6Row {
    /// Address of the service.
    pub address: [u8; 16],
    /// Port of the service.
    pub port: Be16,
    /// Service id.
    pub rev_nat: Be16,
}

const _: () = {
    assert!(size_of::<ReverseNat4Row>() == 6);
    assert!(size_of::<ReverseNat6Row>() == 18);
    assert!(size_of::<ReverseSk4Key>() == 16);
    assert!(offset_of!(ReverseSk4Key, port) == 12);
    assert!(size_of::<ReverseSk6Key>() == 32);
    assert!(offset_of!(ReverseSk6Key, port) == 24);
    assert!(size_of::<ReverseSk4Row>() == 8);
    assert!(size_of::<ReverseSk6Row>() == 20);
};
