//! `cilium_lb4_backends_v3` and `cilium_lb6_backends_v3`: where services' backends are.

use super::Be16;
use std::mem::{offset_of, size_of};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddrV4, SocketAddrV6};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Value of `cilium_lb4_backends_v3`; the key is the backend's id.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct Backend4Row {
    /// Address.
    pub address: [u8; 4],
    /// Port.
    pub port: Be16,
    /// IP protocol; 0 for any.
    pub protocol: u8,
    /// A number of [`BackendState`].
    pub state: u8,
    /// Cluster id, zero for this cluster.
    pub cluster_id: u16,
    /// Number of the zone that it is in; zero if it has none.
    pub zone: u8,
    /// [`backend_tag`] of its id; zero if somebody else wrote the row.
    pub tag: u8,
}

/// Value of `cilium_lb6_backends_v3`; the key is the backend's id.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct Backend6Row {
    /// Address.
    pub address: [u8; 16],
    /// Port.
    pub port: Be16,
    /// IP protocol; 0 for any.
    pub protocol: u8,
    /// A number of [`BackendState`].
    pub state: u8,
    /// Cluster id, zero for this cluster.
    pub cluster_id: u16,
    /// Number of the zone that it is in; zero if it has none.
    pub zone: u8,
    /// [`backend_tag`] of its id; zero if somebody else wrote the row.
    pub tag: u8,
}

/// What tells the row of a backend from those of its neighbours: the kernel may give its memory to one of
/// them while a program reads it.
pub const fn backend_tag(id: u32) -> u8 {
    0x80 | id as u8
}

impl Backend4Row {
    /// A backend of this cluster, with its id.
    pub fn new(id: u32, at: SocketAddrV4, protocol: u8, state: BackendState) -> Self {
        Self {
            address: at.ip().octets(),
            port: Be16::new(at.port()),
            protocol,
            state: state as u8,
            tag: backend_tag(id),
            ..Self::default()
        }
    }

    /// Address and port.
    pub fn socket(&self) -> SocketAddrV4 {
        SocketAddrV4::new(Ipv4Addr::from(self.address), self.port.get())
    }
}

impl Backend6Row {
    /// A backend of this cluster, with its id.
    pub fn new(id: u32, at: SocketAddrV6, protocol: u8, state: BackendState) -> Self {
        Self {
            address: at.ip().octets(),
            port: Be16::new(at.port()),
            protocol,
            state: state as u8,
            tag: backend_tag(id),
            ..Self::default()
        }
    }

    /// Address and port.
    pub fn socket(&self) -> SocketAddrV6 {
        SocketAddrV6::new(Ipv6Addr::from(self.address), self.port.get(), 0, 0)
    }
}

/// Whom a backend serves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum BackendState {
    /// Everybody.
    #[default]
    Active = 0,
    /// Connections that it has; it takes no new ones.
    Terminating = 1,
    /// Somebody only where there is no other backend.
    Quarantined = 2,
    /// Connections that it has, until somebody takes it back into service.
    Maintenance = 3,
}

impl BackendState {
    /// The state of a number in a row.
    pub const fn from_number(number: u8) -> Option<Self> {
        match number {
            0 => Some(Self::Active),
            1 => Some(Self::Terminating),
            2 => Some(Self::Quarantined),
            3 => Some(Self::Maintenance),
            _ => None,
        }
    }
}

const _: () = {
    assert!(size_of::<Backend4Row>() == 12);
    assert!(offset_of!(Backend4Row, state) == 7);
    assert!(offset_of!(Backend4Row, zone) == 10);
    assert!(size_of::<Backend6Row>() == 24);
    assert!(offset_of!(Backend6Row, state) == 19);
    assert!(offset_of!(Backend6Row, zone) == 22);
};
