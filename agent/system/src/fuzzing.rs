//! For the fuzzer (`testbed/fuzz`): each parser of what others write by one function, which takes bytes
//! and panics over what must not be. Nothing else is for it to be called from elsewhere.

use crate::netlink::fuzzing::datagram;

/// What runs a parser over bytes.
pub type Parser = fn(&[u8]);

/// What can be fuzzed, by name.
pub const TARGETS: &[(&str, Parser)] = &[("netlink", netlink)];

/// Datagrams of the kernel.
pub fn netlink(data: &[u8]) {
    datagram(data);
}

#[cfg(test)]
mod tests;
