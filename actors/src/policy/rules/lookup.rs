//! The datapath's lookup in a policy map, told in Rust: what becomes of a packet.

use crate::model::{Direction, IdentityId, PolicyEntry, PolicyKey, PolicyRows};

use super::ports::PortPrefix;

/// What a policy map says of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It passes, by the row of this cookie.
    Allowed(u32),
    /// It is dropped, by the row of this cookie.
    Denied(u32),
    /// No row is about it: it is dropped.
    NoMatch,
}

impl Verdict {
    /// Whether the packet passes.
    pub fn passes(self) -> bool {
        matches!(self, Self::Allowed(_))
    }
}

/// Looks a packet up as the datapath does: the longest match of the peer and the longest match of
/// any peer; of the two the one of higher precedence, then the longer, then the peer's.
pub fn lookup(
    rows: &PolicyRows,
    direction: Direction,
    peer: IdentityId,
    protocol: u8,
    port: u16,
) -> Verdict {
    let packet = PortPrefix { bits: 24, protocol, port };
    let own = longest(rows, direction, peer, packet);
    let any = longest(rows, direction, IdentityId::UNKNOWN, packet);
    let weight = |row: &(u8, PolicyEntry)| (row.1.precedence, row.0);
    // The last of equals is taken: the peer's own.
    match any.into_iter().chain(own).max_by_key(weight) {
        None => Verdict::NoMatch,
        Some((_, entry)) if entry.deny => Verdict::Denied(entry.cookie),
        Some((_, entry)) => Verdict::Allowed(entry.cookie),
    }
}

/// The row of one identity that shares most bits with the packet, and how many.
fn longest(
    rows: &PolicyRows,
    direction: Direction,
    identity: IdentityId,
    packet: PortPrefix,
) -> Option<(u8, PolicyEntry)> {
    let chain = packet.ancestors().chain([packet]);
    let key = |PortPrefix { bits, protocol, port }| PolicyKey {
        direction,
        identity,
        protocol,
        port,
        bits,
    };
    chain.filter_map(|cell| rows.get(&key(cell)).map(|entry| (cell.bits, *entry))).last()
}
