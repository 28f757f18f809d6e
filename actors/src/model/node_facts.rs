//! What the kernel tells of the node: its addresses and its MTU.

use serde::Serialize;

use super::Addresses;

/// What the kernel says of this node as a whole, and may say otherwise at any time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NodeFacts {
    /// The addresses by which others reach it.
    pub addresses: Addresses,
    /// The largest packet that its own devices take, bytes.
    pub mtu: u32,
    /// What keeps them from being true, if anything does.
    pub trouble: Option<String>,
}
