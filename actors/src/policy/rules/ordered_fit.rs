//! What of a policy is enforced where a map has no room for all of it, if its rows have an order: a row of
//! one peer may allow what a row of any peer denies, and a longer row what a shorter one denies.
//!
//! The verdicts of both policies are worked out cell by cell, as the kernel finds them, and rows are made
//! of what both let pass.

use std::collections::BTreeSet;

use super::{
    ports::PortPrefix,
    table::{Ruling, Rulings, row},
};
use crate::model::{Direction, IdentityId, PolicyEntry, PolicyKey, PolicyRows, precedence};

const DIRECTIONS: [Direction; 2] = [Direction::Ingress, Direction::Egress];

/// Whether a denial among these rows does not win over every allowance.
pub(super) fn has_order(rows: &PolicyRows) -> bool {
    rows.iter().any(|(key, entry)| {
        let is_under = [precedence::ALLOW_ANY, precedence::DENY_ANY].contains(&entry.precedence);
        let inside_denial = || {
            let mut around = cell(key).ancestors();
            around.any(|wide| rows.get(&at(key, wide)).is_some_and(|entry| entry.deny))
        };
        is_under || (!entry.deny && inside_denial())
    })
}

/// Whether some packet of these peers passes by the rows before and would not by those that are desired.
pub(super) fn opens(
    before: &PolicyRows,
    desired: &PolicyRows,
    peers: &BTreeSet<IdentityId>,
) -> bool {
    peers.iter().any(|peer| {
        DIRECTIONS.into_iter().any(|direction| {
            let cells = cells([before, desired], direction, *peer);
            cells.into_iter().any(|cell| {
                passes(ruling(before, direction, *peer, cell))
                    && !passes(ruling(desired, direction, *peer, cell))
            })
        })
    })
}

/// The same for every peer.
pub(super) fn takes_away(before: &PolicyRows, desired: &PolicyRows) -> bool {
    opens(before, desired, &peers(before, desired))
}

/// At most so many rows by which a packet passes only if both let it pass. Where there is no room for all,
/// each peer has all of its rows or none, the node's own kind first; what is of any peer then drops.
pub(super) fn both(had: &PolicyRows, desired: &PolicyRows, most: usize) -> PolicyRows {
    let peers = peers(had, desired);
    let mut whole = PolicyRows::new();
    let mut apart = Vec::new();
    for direction in DIRECTIONS {
        let rulings = |peer| {
            let cells = cells([had, desired], direction, peer);
            Rulings::new(cells, |cell| {
                let new = ruling(desired, direction, peer, cell);
                match passes(new) && !passes(ruling(had, direction, peer, cell)) {
                    true => Ruling::Dropped(0),
                    false => new,
                }
            })
        };
        let any = rulings(IdentityId::UNKNOWN);
        let of_any = any.of_any_peer().into_iter();
        whole.extend(of_any.map(|it| row(direction, IdentityId::UNKNOWN, it)));
        for &peer in peers.iter().filter(|peer| **peer != IdentityId::UNKNOWN) {
            let own = rulings(peer);
            whole.extend(own.of_peer(&any).into_iter().map(|it| row(direction, peer, it)));
            let alone = own.of_any_peer();
            if alone.iter().any(|(_, ruling)| passes(*ruling)) {
                apart.push((direction, peer, alone));
            }
        }
    }
    if whole.len() <= most {
        return whole;
    }
    apart.sort_by_key(|(direction, peer, _)| (*peer, *direction));
    let mut rows = PolicyRows::new();
    for (direction, peer, table) in apart {
        if rows.len() + table.len() <= most {
            rows.extend(table.into_iter().map(|it| row(direction, peer, it)));
        }
    }
    rows
}

fn passes(ruling: Ruling) -> bool {
    matches!(ruling, Ruling::Passes(_))
}

/// Each peer that rows name, and any.
fn peers(had: &PolicyRows, desired: &PolicyRows) -> BTreeSet<IdentityId> {
    let named = had.keys().chain(desired.keys()).map(|key| key.identity);
    named.chain([IdentityId::UNKNOWN]).collect()
}

/// The cells of rows that may be about packets of a peer, and that of all.
fn cells(of: [&PolicyRows; 2], direction: Direction, peer: IdentityId) -> BTreeSet<PortPrefix> {
    let table = |rows: &PolicyRows, identity| {
        let first = PolicyKey { direction, identity, protocol: 0, port: 0, bits: 0 };
        let last = PolicyKey { protocol: u8::MAX, port: u16::MAX, bits: u8::MAX, ..first };
        rows.range(first..=last).map(|(key, _)| cell(key)).collect::<Vec<_>>()
    };
    let tables = of.into_iter().flat_map(|rows| {
        [peer, IdentityId::UNKNOWN].into_iter().flat_map(move |whose| table(rows, whose))
    });
    tables.chain([PortPrefix::ALL]).collect()
}

/// What becomes of packets of a cell that are in no narrower one, as the kernel finds it.
fn ruling(rows: &PolicyRows, direction: Direction, peer: IdentityId, cell: PortPrefix) -> Ruling {
    let longest = |identity| -> Option<(u8, PolicyEntry)> {
        let key = PolicyKey { direction, identity, protocol: 0, port: 0, bits: 0 };
        let chain = cell.ancestors().chain([cell]);
        chain.filter_map(|it| rows.get(&at(&key, it)).map(|entry| (it.bits, *entry))).last()
    };
    // The last of equals is taken: the peer's own.
    let found = [longest(IdentityId::UNKNOWN), longest(peer)];
    let found = found.into_iter().flatten().max_by_key(|(bits, entry)| (entry.precedence, *bits));
    match found {
        None => Ruling::Dropped(0),
        Some((_, entry)) if entry.deny => Ruling::Dropped(entry.cookie),
        Some((_, entry)) => Ruling::Passes(entry.cookie),
    }
}

fn cell(key: &PolicyKey) -> PortPrefix {
    PortPrefix { bits: key.bits, protocol: key.protocol, port: key.port }
}

fn at(key: &PolicyKey, PortPrefix { bits, protocol, port }: PortPrefix) -> PolicyKey {
    PolicyKey { protocol, port, bits, ..*key }
}
