//! How packets of backends are translated back: `cilium_lb4_reverse_nat` by service, and its IPv6
//! twin.

use super::{Be16, families::families};
use std::mem::size_of;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

families! {
    /// Value of a family's map; the key is the service id, in network order.
    #[repr(C)]
    #[derive(
        Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
    )]
    pub struct ReverseNatRow {
        /// Address that clients use.
        pub address: Address,
        /// Port that clients use.
        pub port: Be16,
    }

    impl ReverseNatRow {
        /// The row of a service that clients reach there.
        pub fn new(frontend: Socket) -> Self {
            Self { address: frontend.ip().octets(), port: Be16::new(frontend.port()) }
        }

        /// Address and port that clients use.
        pub fn frontend(&self) -> Socket {
            socket(self.address, self.port.get())
        }
    }
}

const _: () = {
    assert!(size_of::<v4::ReverseNatRow>() == 6);
    assert!(size_of::<v6::ReverseNatRow>() == 18);
};
