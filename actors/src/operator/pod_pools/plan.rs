//! What nodes are given next, of which pools, and what stands in the way.

use std::collections::BTreeMap;

use ipnet::IpNet;

use super::{
    demand::{PooledNode, usable},
    known::PodPools,
};
use crate::{
    mutants::{Mutant, mutated},
    operator::prefixes::{Family, Grant, Grants, Occupied, troubles_of_shared},
};

/// How many nodes are given something at a time, and how many prefixes: the Lease has to hold it.
const NODES_AT_A_TIME: usize = 200;
const PREFIXES_AT_A_TIME: usize = 2000;
/// How many prefixes one node is given at a time, so that none keeps all others waiting.
const OF_ONE_NODE: usize = 256;

/// What is to be given.
pub(super) struct PodPlan {
    /// What the Lease is to say.
    pub(super) grants: Grants,
    /// Which prefixes nobody may be given any more.
    pub(super) occupied: Occupied,
    /// What is wrong, by node.
    pub(super) troubles: BTreeMap<String, String>,
    /// How many nodes need more than they have.
    pub(super) lacking: usize,
}

/// Plans what is given to whom; what is recorded already is not changed.
pub(super) fn plan(
    nodes: &BTreeMap<String, PooledNode>,
    pools: &PodPools,
    recorded: &Grants,
    occupied: &Occupied,
) -> PodPlan {
    let all = nodes.values().flat_map(|node| node.has().map(|(_, cidr)| cidr));
    let pending = recorded.0.values().flat_map(Grant::all);
    let mut plan = PodPlan {
        grants: recorded.clone(),
        occupied: occupied.renewed(all.chain(pending)),
        troubles: BTreeMap::new(),
        lacking: 0,
    };
    let of_pools = pools.troubles();
    let all = nodes.iter().flat_map(|(name, node)| node.has().map(|(_, it)| (name.as_str(), it)));
    let shared = troubles_of_shared(all);
    let (mut more, mut left) = (0, PREFIXES_AT_A_TIME);
    for (name, node) in nodes {
        let mut troubles: Vec<String> = shared.get(name).cloned().into_iter().collect();
        let before = recorded.0.get(name).filter(|grant| grant.uid == node.seen.uid);
        let is_pending = before.is_some_and(|grant| !grant.pools.is_empty());
        let is_served = !is_pending && more < NODES_AT_A_TIME && left > 0;
        let most = if is_served { left.min(OF_ONE_NODE) } else { 0 };
        let mut draw = Draw { node, pools, occupied: &mut plan.occupied, left: most };
        let (given, lacks) = draw.all(&mut troubles);
        plan.lacking += usize::from(lacks);
        let asked = node.needed.keys().filter_map(|(pool, _)| of_pools.get(pool));
        troubles.extend(asked.cloned());
        troubles.extend(orphans(node, pools));
        troubles.dedup();
        if !troubles.is_empty() {
            plan.troubles.insert(name.clone(), troubles.join("; "));
        }
        if !given.is_empty() {
            left -= given.values().map(Vec::len).sum::<usize>();
            more += 1;
            // What an operator before gave otherwise, and may still write, stays recorded.
            let cidrs = before.map(|grant| grant.cidrs.clone()).unwrap_or_default();
            let grant = Grant { uid: node.seen.uid.clone(), cidrs, pools: given };
            plan.grants.0.insert(name.clone(), grant);
        }
    }
    plan
}

/// What one node is given.
struct Draw<'a> {
    node: &'a PooledNode,
    pools: &'a PodPools,
    occupied: &'a mut Occupied,
    left: usize,
}

impl Draw<'_> {
    /// Draws what the node lacks; says whether it lacks something.
    fn all(&mut self, troubles: &mut Vec<String>) -> (BTreeMap<String, Vec<IpNet>>, bool) {
        let (mut given, mut lacks) = (BTreeMap::<String, Vec<IpNet>>::new(), false);
        for ((pool, family), needed) in &self.node.needed {
            let had = self.node.of(pool).filter(|cidr| family.has(cidr));
            let mut have = had.fold(0, |sum: u128, cidr| sum.saturating_add(usable(&cidr)));
            lacks |= have < *needed;
            while have < *needed && self.left > 0 {
                match self.one(pool, *family) {
                    Ok(cidr) => {
                        self.left -= 1;
                        have = have.saturating_add(usable(&cidr));
                        given.entry(pool.clone()).or_default().push(cidr);
                    }
                    Err(trouble) => {
                        troubles.push(trouble);
                        break;
                    }
                }
            }
        }
        (given, lacks)
    }

    fn one(&mut self, name: &str, family: Family) -> Result<IpNet, String> {
        let missing = || format!("there is no CiliumPodIPPool {name}: create it");
        let pool = self.pools.get(name).ok_or_else(missing)?;
        let word = family.name();
        if pool.ranges.of(family).is_empty() {
            return Err(format!("CiliumPodIPPool {name} has no {word} range: add one"));
        }
        if mutated(Mutant::PodPoolsApart) {
            // Only what is the pool's own counts.
            let mut own = self.occupied.renewed(self.node.of(name));
            return own.take(name, &pool.ranges, family).ok_or_else(String::new);
        }
        let used_up = || {
            format!("no free {word} prefix is left in CiliumPodIPPool {name}: add a range to it")
        };
        self.occupied.take(name, &pool.ranges, family).ok_or_else(used_up)
    }
}

/// What the node has of pools that do not have it any more.
fn orphans(node: &PooledNode, pools: &PodPools) -> Option<String> {
    let (pool, cidr) = node.has().find_map(|(pool, cidr)| {
        let pool = pool?;
        let is_covered = pools.get(pool).is_some_and(|known| known.covers(&cidr));
        (!is_covered).then_some((pool, cidr))
    })?;
    Some(format!(
        "{cidr} is in no range of a CiliumPodIPPool {pool}: it stays the node's until none of its pods uses \
         it; add the range again, or restart these pods"
    ))
}
