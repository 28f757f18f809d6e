//! What the kernel says unasked.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use super::Link;

/// What changed at interfaces, routes and rules of the node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Notices {
    /// More was said than could be heard: anything may have changed.
    pub all: bool,
    /// Interfaces as they are now, without their addresses; `None` for those that are gone.
    pub links: BTreeMap<u32, Option<Link>>,
    /// Single addresses to which a route went or was changed by somebody else.
    pub addresses: BTreeSet<IpAddr>,
    /// Interfaces of the node itself, its addresses, or what leads out.
    pub node: bool,
    /// Routes of ours to other nodes, or routing rules.
    pub routing: bool,
}
