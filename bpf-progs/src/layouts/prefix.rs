//! `cilium_ipmasq_v4` and `cilium_ipmasq_v6`: destinations to which endpoints keep their addresses.

use super::families::families;
use std::mem::{offset_of, size_of};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

families! {
    /// Key of a family's map; the value is one byte, zero.
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
    pub struct PrefixKey {
        /// Length of the prefix in bits.
        pub prefix_len: u32,
        /// Address.
        pub address: Address,
    }

    impl PrefixKey {
        /// The key of `address/bits`. Bits behind the prefix are kept as given.
        pub fn new(address: Ip, bits: u8) -> Self {
            Self { prefix_len: bits.into(), address: address.octets() }
        }
    }
}

const _: () = {
    assert!(size_of::<v4::PrefixKey>() == 8);
    assert!(offset_of!(v4::PrefixKey, address) == 4);
    assert!(size_of::<v6::PrefixKey>() == 20);
    assert!(offset_of!(v6::PrefixKey, address) == 4);
};
