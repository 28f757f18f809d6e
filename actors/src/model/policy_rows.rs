//! Rows of an endpoint's policy map: key, value and precedence, as the datapath reads them.
//! How rules become rows is the policy engine's matter.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::IdentityId;

/// The way a packet goes, seen from the endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// To the endpoint.
    Ingress,
    /// From the endpoint.
    Egress,
}

/// Key of a row of an endpoint's policy map.
///
/// The kernel matches it by longest prefix over direction, identity, protocol and port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PolicyKey {
    /// The way the packet goes.
    pub direction: Direction,
    /// The peer; [`IdentityId::UNKNOWN`] is any peer.
    pub identity: IdentityId,
    /// IP protocol number; 0 with `bits` 0 is any.
    pub protocol: u8,
    /// Destination port, host order; for ICMP the type.
    pub port: u16,
    /// How many bits of protocol and port count: 0 none, 8 the protocol, 24 one whole port.
    pub bits: u8,
}

/// Value of a row of an endpoint's policy map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PolicyEntry {
    /// Whether the row denies.
    pub deny: bool,
    /// The higher wins: 24 bits of priority, then 255 for deny, 1 for allow.
    pub precedence: u32,
    /// Names the rules behind the row; stable over restarts, 0 is none.
    pub cookie: u32,
}

/// An endpoint's whole policy map, in the kernel's terms.
pub type PolicyRows = BTreeMap<PolicyKey, PolicyEntry>;

/// Precedence of a row at default priority, as Cilium 1.19 writes it.
pub mod precedence {
    /// Priority bits of a rule without one of its own.
    const DEFAULT_PRIORITY: u32 = 0xffff_ff00;
    /// An allow row.
    pub const ALLOW: u32 = DEFAULT_PRIORITY | 1;
    /// A deny row.
    pub const DENY: u32 = DEFAULT_PRIORITY | 0xff;
    /// An allow row of any peer where rules have an order: a row of one peer decides before it.
    pub const ALLOW_ANY: u32 = ALLOW - 0x100;
    /// A deny row of any peer where rules have an order.
    pub const DENY_ANY: u32 = DENY - 0x100;
}
