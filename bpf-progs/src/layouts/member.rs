//! `volvox_lb4_members` and `volvox_lb6_members`: which backends a service lists, and how it uses each.

use super::{BackendState, Be16};
use std::mem::{offset_of, size_of};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddrV4, SocketAddrV6};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Key of both: a backend of a service.
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
pub struct MemberKey {
    /// Id of the backend.
    pub backend: u32,
    /// Service id.
    pub rev_nat: Be16,
    /// Zero.
    pub pad: u16,
}

impl MemberKey {
    /// The key of a service's backend.
    pub fn new(backend: u32, rev_nat: u16) -> Self {
        Self { backend, rev_nat: Be16::new(rev_nat), pad: 0 }
    }
}

/// Value of `volvox_lb4_members`.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct Member4Row {
    /// Address.
    pub address: [u8; 4],
    /// Port.
    pub port: Be16,
    /// IP protocol; 0 for any.
    pub protocol: u8,
    /// A number of [`BackendState`]: how this service uses it.
    pub state: u8,
    /// The row's own key: the kernel may give its memory to another row while a program reads it.
    pub key: MemberKey,
}

/// Value of `volvox_lb6_members`.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct Member6Row {
    /// Address.
    pub address: [u8; 16],
    /// Port.
    pub port: Be16,
    /// IP protocol; 0 for any.
    pub protocol: u8,
    /// A number of [`BackendState`]: how this service uses it.
    pub state: u8,
    /// The row's own key: the kernel may give its memory to another row while a program reads it.
    pub key: MemberKey,
}

impl Member4Row {
    /// A backend of a service.
    pub fn new(key: MemberKey, at: SocketAddrV4, protocol: u8, state: BackendState) -> Self {
        let (address, port) = (at.ip().octets(), Be16::new(at.port()));
        Self { address, port, protocol, state: state as u8, key }
    }

    /// Address and port.
    pub fn socket(&self) -> SocketAddrV4 {
        SocketAddrV4::new(Ipv4Addr::from(self.address), self.port.get())
    }
}

impl Member6Row {
    /// A backend of a service.
    pub fn new(key: MemberKey, at: SocketAddrV6, protocol: u8, state: BackendState) -> Self {
        let (address, port) = (at.ip().octets(), Be16::new(at.port()));
        Self { address, port, protocol, state: state as u8, key }
    }

    /// Address and port.
    pub fn socket(&self) -> SocketAddrV6 {
        SocketAddrV6::new(Ipv6Addr::from(self.address), self.port.get(), 0, 0)
    }
}

const _: () = {
    assert!(size_of::<MemberKey>() == 8);
    assert!(size_of::<Member4Row>() == 16);
    assert!(offset_of!(Member4Row, key) == 8);
    assert!(size_of::<Member6Row>() == 28);
    assert!(offset_of!(Member6Row, key) == 20);
};
