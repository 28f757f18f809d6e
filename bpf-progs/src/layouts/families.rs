//! What the types of IPv4 and IPv6 maps differ in: how long an address is, and what follows from that.

/// Writes items for each family, in modules `v4` and `v6`: names like `Address` mean the family's own.
macro_rules! families {
    ($($item:item)*) => {
        #[allow(clippy::wildcard_imports, reason = "the items name what the file around them uses")]
        pub(super) mod v4 {
            use super::*;
            use crate::layouts::families::v4::*;

            $($item)*
        }

        #[allow(clippy::wildcard_imports, reason = "the items name what the file around them uses")]
        pub(super) mod v6 {
            use super::*;
            use crate::layouts::families::v6::*;

            $($item)*
        }
    };
}
pub(super) use families;

pub(super) mod v4 {
    use std::net::{Ipv4Addr, SocketAddrV4};

    /// An address in a key or a row.
    pub(crate) type Address = [u8; 4];
    /// A client: its address in the first four bytes, or the cookie of its network namespace.
    pub(crate) type Client = [u8; 8];
    /// What fills an address and a port up to a multiple of 8 bytes.
    pub(crate) type Pad = u16;
    pub(crate) type Ip = Ipv4Addr;
    pub(crate) type Socket = SocketAddrV4;

    pub(crate) fn socket(address: Address, port: u16) -> Socket {
        SocketAddrV4::new(address.into(), port)
    }
}

pub(super) mod v6 {
    use std::net::{Ipv6Addr, SocketAddrV6};

    /// An address in a key or a row.
    pub(crate) type Address = [u8; 16];
    /// A client: its address, or in the first eight bytes the cookie of its network namespace.
    pub(crate) type Client = [u8; 16];
    /// What fills an address and a port up to a multiple of 8 bytes.
    pub(crate) type Pad = [u8; 6];
    pub(crate) type Ip = Ipv6Addr;
    pub(crate) type Socket = SocketAddrV6;

    pub(crate) fn socket(address: Address, port: u16) -> Socket {
        SocketAddrV6::new(address.into(), port, 0, 0)
    }
}
