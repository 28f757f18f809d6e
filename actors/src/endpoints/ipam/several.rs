//! Several pools, of several prefixes each: what the node has of them, and how much of it is needed.
//!
//! Prefixes come and go while the agent runs. Who owns them tells IPAM which there are, and hears from it
//! how much is used and needed. A prefix that is closed hands nothing out any more, for as long as it is
//! there: so it can be given back.

use std::collections::BTreeMap;

use ipnet::IpNet;
use serde::Serialize;

use super::AddressFamily;
use crate::{model::Families, state_directory::PoolPrefixes};

/// How addresses of several pools are handed out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeveralPools {
    /// Of a pod that says nothing else, and of the node itself.
    pub default_pool: String,
    /// How many addresses are to be free, by pool.
    pub pre_allocation: BTreeMap<String, u32>,
    /// Families that are switched on.
    pub families: Families,
    /// What the run before had.
    pub prefixes: PoolPrefixes,
}

/// How much of a pool is used, of one family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PoolUse {
    /// Addresses that can be handed out, those that somebody has among them.
    pub capacity: u64,
    /// Addresses that somebody has.
    pub used: u64,
    /// Pods that wait for one, or did so minutes ago.
    pub pending: u64,
    /// How many there should be.
    pub needed: u64,
}

/// How much of each pool is used and needed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolsDemand {
    /// By pool and family.
    pub pools: BTreeMap<(String, AddressFamily), PoolUse>,
    /// How many addresses of each prefix somebody has.
    pub used: BTreeMap<IpNet, u64>,
}

impl PoolsDemand {
    /// Whether it asks for something else than another one does.
    pub(super) fn differs(&self, other: &Self) -> bool {
        let needed = |demand: &Self| -> Vec<_> {
            demand.pools.iter().map(|(of, it)| (of.clone(), it.needed, it.capacity)).collect()
        };
        let unused = |demand: &Self| -> Vec<_> {
            demand.used.iter().map(|(it, used)| (*it, *used == 0)).collect()
        };
        needed(self) != needed(other) || unused(self) != unused(other)
    }
}

/// How many addresses are to be there if so many are in use or waited for: the next multiple of
/// `pre_allocation` but one. So at least that many are free, and a pod more or less changes nothing.
pub(super) fn needed(count: u64, pre_allocation: u32) -> u64 {
    match u64::from(pre_allocation) {
        0 => count,
        step => (count.div_ceil(step) + 1) * step,
    }
}

/// How many addresses of a prefix its giver counts: neither the first nor the last one, unless it is tiny.
pub fn counted(prefix: &IpNet) -> u64 {
    let bits = u32::from(prefix.max_prefix_len() - prefix.prefix_len());
    let all = 1_u64.checked_shl(bits).unwrap_or(u64::MAX);
    if bits < 2 { all } else { all - 2 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn needs_are_rounded_up_to_the_next_multiple_but_one() {
        let of_16 = [0, 1, 16, 17].map(|count| needed(count, 16));
        assert_eq!(of_16, [16, 32, 32, 48]);
        assert_eq!((needed(5, 0), needed(0, 0), needed(8, 1)), (5, 0, 9));
    }

    #[test]
    fn addresses_are_counted_as_their_giver_does() {
        let count = |text: &str| counted(&text.parse().unwrap());
        assert_eq!(["10.0.0.0/24", "10.0.0.0/31", "10.0.0.0/32"].map(count), [254, 2, 1]);
        assert_eq!(count("fd00::/64"), u64::MAX - 2);
    }
}
