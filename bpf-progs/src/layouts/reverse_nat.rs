//! How packets of backends are translated back: `cilium_lb4_reverse_nat` by service, and its IPv6
//! twin.

use super::Be16;
use std::mem::size_of;
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

const _: () = {
    assert!(size_of::<ReverseNat4Row>() == 6);
    assert!(size_of::<ReverseNat6Row>() == 18);
};
