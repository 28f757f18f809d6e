//! What is asked for, and which prefixes are more than is needed.

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;

use super::seen::{Requests, SeenOwnNode};
use crate::{
    endpoints::ipam::{AddressFamily, PoolsDemand, counted},
    state_directory::{PoolPrefix, PoolPrefixes},
};

/// Of which family a prefix is.
fn family(prefix: &IpNet) -> AddressFamily {
    if prefix.addr().is_ipv4() { AddressFamily::Ipv4 } else { AddressFamily::Ipv6 }
}

/// How many addresses are asked for: those that are needed, and as many as are free in prefixes of which
/// nothing more is handed out. Their giver counts these as well.
pub(super) fn requests(
    demand: &PoolsDemand,
    prefixes: &PoolPrefixes,
    seen: &SeenOwnNode,
) -> Requests {
    let needed = demand.pools.iter().map(|(of, it)| (of.clone(), it.needed));
    let mut all: Requests = needed.filter(|(_, needed)| *needed > 0).collect();
    for (prefix, PoolPrefix { closed, pool }) in prefixes {
        let used = demand.used.get(prefix).copied().unwrap_or_default();
        if *closed
            && seen.is_allocated(prefix)
            && used > 0
            && let Some(needed) = all.get_mut(&(pool.clone(), family(prefix)))
        {
            *needed = needed.saturating_add(counted(prefix).saturating_sub(used));
        }
    }
    all
}

/// Prefixes without which there are still as many addresses as are needed, and of which nobody has one.
pub(super) fn surplus(
    demand: &PoolsDemand,
    prefixes: &PoolPrefixes,
    seen: &SeenOwnNode,
    home: &BTreeSet<IpNet>,
) -> Vec<IpNet> {
    let open = |it: &(&IpNet, &PoolPrefix)| !it.1.closed;
    let mut have = BTreeMap::<(String, AddressFamily), u64>::new();
    for (prefix, it) in prefixes.iter().filter(open) {
        let sum = have.entry((it.pool.clone(), family(prefix))).or_default();
        *sum = sum.saturating_add(counted(prefix));
    }
    let mut surplus = Vec::new();
    for (prefix, it) in prefixes.iter().filter(open).rev() {
        // What IPAM has not said anything of, it does not know yet.
        let is_unused = demand.used.get(prefix) == Some(&0);
        if !is_unused || home.contains(prefix) || !seen.is_allocated(prefix) {
            continue;
        }
        let of = (it.pool.clone(), family(prefix));
        let needed = demand.pools.get(&of).map_or(0, |it| it.needed);
        let have = have.entry(of).or_default();
        let rest = have.saturating_sub(counted(prefix));
        if rest >= needed {
            *have = rest;
            surplus.push(*prefix);
        }
    }
    surplus
}

/// Whether there are fewer addresses than are needed.
pub(super) fn is_lacking(demand: &PoolsDemand) -> bool {
    demand.pools.values().any(|pool| pool.capacity < pool.needed)
}

/// What is new of what stands there: that touches nothing that is known. The rest is complained of.
pub(super) fn new_prefixes(
    prefixes: &PoolPrefixes,
    seen: &SeenOwnNode,
) -> (PoolPrefixes, Option<String>) {
    let (mut new, mut trouble) = (PoolPrefixes::new(), None);
    for (pool, prefix) in seen.prefixes().filter(|(_, it)| !prefixes.contains_key(it)) {
        let touches = |other: &&IpNet| prefix.contains(*other) || other.contains(&prefix);
        match prefixes.keys().chain(new.keys()).find(touches) {
            Some(other) if *other != prefix => {
                trouble.get_or_insert(format!(
                    "{prefix} of pool {pool} overlaps {other}, which this node has: take one of them out \
                     of its CiliumNode"
                ));
            }
            _ => drop(new.insert(prefix, PoolPrefix { closed: false, pool: pool.to_owned() })),
        }
    }
    (new, trouble)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::endpoints::ipam::PoolUse;

    fn net(text: &str) -> IpNet {
        text.parse().unwrap()
    }

    fn seen(cidrs: &[&str]) -> SeenOwnNode {
        let allocated = json!([{ "pool": "a", "cidrs": cidrs }]);
        SeenOwnNode::read(&json!({ "spec": { "ipam": { "pools": { "allocated": allocated } } } }))
    }

    fn prefixes(all: &[(&str, bool)]) -> PoolPrefixes {
        let one = |(text, closed): &(&str, bool)| {
            (net(text), PoolPrefix { closed: *closed, pool: "a".to_owned() })
        };
        all.iter().map(one).collect()
    }

    fn demand(needed: u64, used: &[(&str, u64)]) -> PoolsDemand {
        let of = ("a".to_owned(), AddressFamily::Ipv4);
        let pool = PoolUse { needed, ..PoolUse::default() };
        let used = used.iter().map(|(text, used)| (net(text), *used)).collect();
        PoolsDemand { pools: [(of, pool)].into(), used }
    }

    const CIDRS: [&str; 3] = ["10.0.0.0/28", "10.0.0.16/28", "10.0.0.32/28"];

    #[test]
    fn what_is_unused_and_not_needed_is_surplus_but_never_the_home() {
        let all = prefixes(&CIDRS.map(|text| (text, false)));
        let (seen, home) = (seen(&CIDRS), BTreeSet::from([net(CIDRS[0])]));
        let unused = [(CIDRS[0], 0), (CIDRS[1], 0), (CIDRS[2], 0)];
        let of = |needed, used| surplus(&demand(needed, used), &all, &seen, &home);
        assert_eq!(of(8, &unused), [net(CIDRS[2]), net(CIDRS[1])]);
        assert_eq!(of(16, &unused), [net(CIDRS[2])]);
        assert_eq!(of(8, &[(CIDRS[1], 0), (CIDRS[2], 1)]), [net(CIDRS[1])]);
        assert_eq!(of(8, &[]), []);
    }

    #[test]
    fn free_addresses_of_closed_prefixes_are_asked_for_again() {
        let all = prefixes(&[(CIDRS[0], false), (CIDRS[1], true)]);
        let of = requests(&demand(16, &[(CIDRS[1], 3)]), &all, &seen(&CIDRS));
        assert_eq!(of.values().collect::<Vec<_>>(), [&(16 + 14 - 3)]);
    }

    #[test]
    fn what_overlaps_is_not_taken_up() {
        let all = prefixes(&[(CIDRS[0], false)]);
        let (new, trouble) = new_prefixes(&all, &seen(&["10.0.0.0/24", CIDRS[1], CIDRS[0]]));
        assert_eq!(new.into_keys().collect::<Vec<_>>(), [net(CIDRS[1])]);
        assert!(trouble.unwrap().contains("overlaps 10.0.0.0/28"));
    }
}
