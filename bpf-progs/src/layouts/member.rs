//! `volvox_lb4_members` and `volvox_lb6_members`: which backends a service lists, and how it uses each.

use super::{BackendState, Be16, families::families};
use std::mem::{offset_of, size_of};
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

families! {
    /// Value of a family's map.
    #[repr(C)]
    #[derive(
        Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
    )]
    pub struct MemberRow {
        /// Address.
        pub address: Address,
        /// Port.
        pub port: Be16,
        /// IP protocol; 0 for any.
        pub protocol: u8,
        /// A number of [`BackendState`]: how this service uses it.
        pub state: u8,
        /// The row's own key: the kernel may give its memory to another row while a program reads it.
        pub key: MemberKey,
    }

    impl MemberRow {
        /// A backend of a service.
        pub fn new(key: MemberKey, at: Socket, protocol: u8, state: BackendState) -> Self {
            let (address, port) = (at.ip().octets(), Be16::new(at.port()));
            Self { address, port, protocol, state: state as u8, key }
        }

        /// Address and port.
        pub fn socket(&self) -> Socket {
            socket(self.address, self.port.get())
        }
    }
}

const _: () = {
    assert!(size_of::<MemberKey>() == 8);
    assert!(size_of::<v4::MemberRow>() == 16);
    assert!(offset_of!(v4::MemberRow, key) == 8);
    assert!(size_of::<v6::MemberRow>() == 28);
    assert!(offset_of!(v6::MemberRow, key) == 20);
};
