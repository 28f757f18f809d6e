//! What of a policy is enforced where a map has no room for all of it.
//!
//! What takes away is in force at once; what adds waits for room. So a packet passes if the rows
//! before and those that are desired both let it pass. Where even that has no room, allowances are
//! left out, those of the node's own kind last: a packet is then denied rather than let in.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    ordered_fit::{self, has_order},
    ports::PortPrefix,
};
use crate::model::{Direction, IdentityId, PolicyEntry, PolicyKey, PolicyRows};

/// Identities below this are reserved: the host's, of health checks, of other nodes.
const RESERVED_END: u32 = 256;

/// At most so many rows, between those that a map has and those that are desired: what they allow,
/// `desired` allows too.
pub fn fit(had: &PolicyRows, desired: &PolicyRows, most: usize) -> PolicyRows {
    if had.len() <= most && !takes_away(had, desired) {
        // It stays as it is, under the names that rules have now.
        let now =
            |key, entry: &PolicyEntry| desired.get(key).filter(|it| it.deny == entry.deny).copied();
        return had.iter().map(|(key, entry)| (*key, now(key, entry).unwrap_or(*entry))).collect();
    }
    if has_order(had) || has_order(desired) {
        return ordered_fit::both(had, desired, most);
    }
    let mut allowed = both_allow(had, desired, most);
    let denials = |of: &PolicyRows| of.clone().into_iter().filter(|(_, entry)| entry.deny);
    let all: PolicyRows = denials(had).chain(denials(desired)).collect();
    if let (rows, true) = choose(&allowed, &all, most) {
        return rows;
    }
    // What only the rows before deny may go, as the policy wants it.
    let all: PolicyRows = denials(desired).collect();
    if let (rows, true) = choose(&allowed, &all, most) {
        return rows;
    }
    // Where anybody may come, but some may not, the node itself may come before anybody.
    for direction in [Direction::Ingress, Direction::Egress] {
        let PortPrefix { bits, protocol, port } = PortPrefix::ALL;
        let key = PolicyKey { direction, identity: IdentityId::HOST, protocol, port, bits };
        if let (Some(_), Some(entry)) = (covering(had, &key, false), covering(desired, &key, false))
        {
            allowed.entry(key).or_insert(*entry);
        }
    }
    choose(&allowed, &all, most).0
}

/// Whether some packet of these peers passes by the rows before and would not by those that are
/// desired. In doubt it does.
pub fn opens(before: &PolicyRows, desired: &PolicyRows, peers: &BTreeSet<IdentityId>) -> bool {
    if has_order(before) || has_order(desired) {
        return ordered_fit::opens(before, desired, peers);
    }
    let allows = |(key, entry): &(&PolicyKey, &PolicyEntry)| {
        !entry.deny && (key.identity == IdentityId::UNKNOWN || peers.contains(&key.identity))
    };
    before.iter().filter(allows).any(|(key, _)| {
        let whose = match key.identity {
            IdentityId::UNKNOWN => peers.iter().copied().collect(),
            own => vec![own],
        };
        whose.into_iter().map(|identity| PolicyKey { identity, ..*key }).any(|part| {
            covering(before, &part, true).is_none()
                && (covering(desired, &part, false).is_none()
                    || denials_of(desired, &part).any(|it| covering(before, it, true).is_none()))
        })
    })
}

/// Whether some packet passes by the rows before and would not by those that are desired. In doubt it
/// does.
fn takes_away(before: &PolicyRows, desired: &PolicyRows) -> bool {
    if has_order(before) || has_order(desired) {
        return ordered_fit::takes_away(before, desired);
    }
    let denials: PolicyRows = desired.clone().into_iter().filter(|(_, entry)| entry.deny).collect();
    let denials = Denials::new(&denials);
    before.iter().filter(|(_, entry)| !entry.deny).any(|(key, _)| {
        covering(before, key, true).is_none()
            && (covering(desired, key, false).is_none()
                || denials.within(*key).any(|(it, _)| covering(before, it, true).is_none()))
    })
}

/// What is denied of that which a key means.
fn denials_of<'a>(rows: &'a PolicyRows, key: &PolicyKey) -> impl Iterator<Item = &'a PolicyKey> {
    let key = *key;
    let of = move |identity| {
        let lowest = PolicyKey { identity, protocol: 0, port: 0, bits: 0, ..key };
        let highest = PolicyKey { identity, protocol: u8::MAX, port: u16::MAX, bits: 24, ..key };
        rows.range(lowest..=highest).filter(move |(it, entry)| entry.deny && meet(it, &key))
    };
    [key.identity, IdentityId::UNKNOWN].into_iter().flat_map(of).map(|(key, _)| key)
}

fn cell(key: &PolicyKey) -> PortPrefix {
    PortPrefix { bits: key.bits, protocol: key.protocol, port: key.port }
}

/// The row that says something of all that a key means, if it allows, or denies.
fn covering<'a>(rows: &'a PolicyRows, key: &PolicyKey, deny: bool) -> Option<&'a PolicyEntry> {
    let own = cell(key);
    own.ancestors().chain([own]).find_map(|PortPrefix { bits, protocol, port }| {
        let of = |identity| PolicyKey { identity, protocol, port, bits, ..*key };
        let mut found = [IdentityId::UNKNOWN, key.identity].into_iter();
        found.find_map(|whose| rows.get(&of(whose)).filter(|entry| entry.deny == deny))
    })
}

/// Whether one of two cells holds the other.
fn meet(one: &PolicyKey, other: &PolicyKey) -> bool {
    let (wide, narrow) = if one.bits <= other.bits { (one, other) } else { (other, one) };
    wide.bits == 0 || cell(wide).contains(narrow.protocol, narrow.port)
}

/// What both allow, whatever they deny.
fn both_allow(had: &PolicyRows, desired: &PolicyRows, most: usize) -> PolicyRows {
    let allowances = |rows: &PolicyRows| {
        let rows = rows.iter().filter(|(_, entry)| !entry.deny);
        rows.map(|(key, entry)| (*key, *entry)).collect::<Vec<_>>()
    };
    let (before, after) = (allowances(had), allowances(desired));
    let mut all = PolicyRows::new();
    for (key, _) in &before {
        if let Some(entry) = covering(desired, key, false) {
            all.insert(*key, *entry);
        }
    }
    for (key, entry) in &after {
        if covering(had, key, false).is_some() {
            all.insert(*key, *entry);
        }
    }
    // One allows a part of it to anybody, the other all of it to somebody.
    for (some, any) in [(&before, &after), (&after, &before)] {
        let any: Vec<_> =
            any.iter().filter(|(key, _)| key.identity == IdentityId::UNKNOWN).collect();
        for (key, entry) in some.iter().filter(|(key, _)| key.identity != IdentityId::UNKNOWN) {
            let inside = any.iter().filter(|(part, _)| {
                part.direction == key.direction && part.bits > key.bits && meet(part, key)
            });
            for (part, _) in inside {
                // Of more than there is room for, none has to be known.
                if all.len() > most.saturating_mul(2) {
                    return all;
                }
                all.entry(PolicyKey { identity: key.identity, ..*part }).or_insert(*entry);
            }
        }
    }
    all
}

/// Denials by whom they are about.
struct Denials<'a> {
    all: &'a PolicyRows,
    of: BTreeMap<(Direction, IdentityId), Vec<(&'a PolicyKey, &'a PolicyEntry)>>,
}

impl<'a> Denials<'a> {
    fn new(all: &'a PolicyRows) -> Self {
        let mut of = BTreeMap::<_, Vec<_>>::new();
        for (key, entry) in all {
            of.entry((key.direction, key.identity)).or_default().push((key, entry));
        }
        Self { all, of }
    }

    /// Those that deny a part of what a row allows.
    fn within(&self, key: PolicyKey) -> impl Iterator<Item = (&'a PolicyKey, &'a PolicyEntry)> {
        let anybody = key.identity == IdentityId::UNKNOWN;
        let lists = self.of.iter().filter(move |((direction, whose), _)| {
            *direction == key.direction
                && (anybody || *whose == key.identity || *whose == IdentityId::UNKNOWN)
        });
        lists
            .flat_map(|(_, list)| list.iter().copied())
            .filter(move |(denial, _)| meet(denial, &key))
    }
}

/// As many of the allowances as there is room for, each with what of it is denied. Whether that is
/// all of them.
fn choose(allowed: &PolicyRows, denied: &PolicyRows, most: usize) -> (PolicyRows, bool) {
    let denials = Denials::new(denied);
    let mut order: Vec<_> =
        allowed.iter().filter(|(key, _)| covering(denials.all, key, true).is_none()).collect();
    // The broader ones before those that they make needless.
    order.sort_by_key(|(key, _)| {
        let reserved = (1..RESERVED_END).contains(&key.identity.0);
        (!reserved, key.identity, key.bits, key.protocol, key.port, key.direction)
    });
    let (mut rows, mut whole) = (PolicyRows::new(), true);
    for (key, entry) in order {
        if covering(&rows, key, false).is_some() {
            continue;
        }
        let parts: Vec<_> =
            denials.within(*key).filter(|(part, _)| !rows.contains_key(part)).collect();
        if rows.len() + parts.len() < most {
            rows.extend(parts.into_iter().map(|(part, denial)| (*part, *denial)));
            rows.insert(*key, *entry);
        } else {
            whole = false;
        }
    }
    (rows, whole)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{model::precedence, policy::rules::lookup};

    const PEERS: [u32; 5] = [0, 1, 300, 301, 16_777_217];
    const PORTS: [u16; 4] = [80, 81, 8080, 53];

    fn row(identity: u32, port: Option<u16>, deny: bool) -> (PolicyKey, PolicyEntry) {
        let (protocol, bits) = if port.is_some() { (6, 24) } else { (0, 0) };
        let precedence = if deny { precedence::DENY } else { precedence::ALLOW };
        let key = PolicyKey {
            direction: Direction::Ingress,
            identity: IdentityId(identity),
            protocol,
            port: port.unwrap_or_default(),
            bits,
        };
        (key, PolicyEntry { deny, precedence, cookie: 0 })
    }

    fn passes(rows: &PolicyRows, peer: u32, port: u16) -> bool {
        lookup(rows, Direction::Ingress, IdentityId(peer), 6, port).passes()
    }

    /// Rows as the engine makes them: no allowance below a denial of the same peer.
    fn rows() -> impl Strategy<Value = PolicyRows> {
        let one = (0..PEERS.len(), prop::option::of(0..PORTS.len()), any::<bool>());
        prop::collection::vec(one, 0..14).prop_map(|all| {
            let all = all
                .into_iter()
                .map(|(peer, port, deny)| row(PEERS[peer], port.map(|port| PORTS[port]), deny));
            let mut rows: PolicyRows = all.collect();
            let denied = rows.clone();
            rows.retain(|key, entry| {
                let of = |deny| {
                    let wide = PolicyKey { protocol: 0, port: 0, bits: 0, ..*key };
                    denied.get(&wide).is_some_and(|entry| entry.deny == deny)
                };
                entry.deny || key.bits == 0 || !of(true)
            });
            rows
        })
    }

    fn packets() -> impl Iterator<Item = (u32, u16)> {
        PEERS.into_iter().chain([999]).flat_map(|peer| PORTS.map(|port| (peer, port)))
    }

    proptest! {
        #[test]
        fn with_room_a_packet_passes_if_both_let_it_pass(had in rows(), expected in rows()) {
            let rows = fit(&had, &expected, 1000);
            for (peer, port) in packets() {
                let both = passes(&had, peer, port) && passes(&expected, peer, port);
                prop_assert_eq!(passes(&rows, peer, port), both, "{} {}: {:?}", peer, port, rows);
            }
            prop_assert_eq!(fit(&rows, &expected, 1000), rows.clone());
        }

        #[test]
        fn without_room_nothing_passes_that_is_not_wanted(
            had in rows(), expected in rows(), most in 0_usize..8,
        ) {
            let rows = fit(&had, &expected, most);
            prop_assert!(rows.len() <= most);
            for (peer, port) in packets() {
                prop_assert!(!passes(&rows, peer, port) || passes(&expected, peer, port));
            }
            let again = fit(&rows, &expected, most);
            for (peer, port) in packets() {
                prop_assert_eq!(passes(&rows, peer, port), passes(&again, peer, port));
            }
        }
    }

    proptest! {
        #[test]
        fn what_would_let_a_peer_in_is_found(had in rows(), expected in rows(), peer in 0..PEERS.len()) {
            let peer = IdentityId(PEERS[peer].max(1));
            let opened = PORTS.into_iter().any(|port| {
                passes(&had, peer.0, port) && !passes(&expected, peer.0, port)
            });
            prop_assert!(!opened || opens(&had, &expected, &[peer].into()));
            prop_assert!(!opens(&had, &had, &[peer].into()));
        }
    }

    #[test]
    fn what_is_taken_away_is_so_at_once_and_what_is_added_waits() {
        let had: PolicyRows = [row(1, None, false), row(300, None, false)].into();
        let more = (400..500).map(|peer| row(peer, None, false));
        let expected: PolicyRows = more.chain([row(1, None, false)]).collect();
        assert_eq!(fit(&had, &expected, 10), [row(1, None, false)].into());
    }

    #[test]
    fn a_denial_takes_the_place_of_allowances_and_the_host_is_let_in_to_the_last() {
        let had: PolicyRows = [row(0, None, false)].into();
        let denials = (400..420).map(|peer| row(peer, None, true));
        let expected: PolicyRows = denials.chain([row(0, None, false)]).collect();
        // All but twenty have no room.
        assert_eq!(fit(&had, &expected, 10), [row(1, None, false)].into());
        let expected: PolicyRows =
            (400..500).chain([1]).map(|peer| row(peer, None, false)).collect();
        let rows = fit(&had, &expected, 10);
        assert!(rows.len() == 10 && passes(&rows, 1, 80) && !passes(&rows, 300, 80));
    }
}
