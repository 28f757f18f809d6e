//! `cilium_lb4_backends_v3` and `cilium_lb6_backends_v3`: where services' backends are.

use super::{Be16, families::families};
use std::mem::{offset_of, size_of};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

families! {
    /// Value of a family's map; the key is the backend's id.
    #[repr(C)]
    #[derive(
        Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
    )]
    pub struct BackendRow {
        /// Address.
        pub address: Address,
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

    impl BackendRow {
        /// A backend of this cluster, with its id.
        pub fn new(id: u32, at: Socket, protocol: u8, state: BackendState) -> Self {
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
        pub fn socket(&self) -> Socket {
            socket(self.address, self.port.get())
        }
    }
}

/// What tells the row of a backend from those of its neighbours: the kernel may give its memory to one of
/// them while a program reads it.
pub const fn backend_tag(id: u32) -> u8 {
    0x80 | id as u8
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
    assert!(size_of::<v4::BackendRow>() == 12);
    assert!(offset_of!(v4::BackendRow, state) == 7);
    assert!(offset_of!(v4::BackendRow, zone) == 10);
    assert!(size_of::<v6::BackendRow>() == 24);
    assert!(offset_of!(v6::BackendRow, state) == 19);
    assert!(offset_of!(v6::BackendRow, zone) == 22);
};
