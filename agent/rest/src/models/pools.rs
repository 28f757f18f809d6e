//! Shapes of pools of addresses and of this node's prefixes of them.

use std::collections::BTreeMap;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use volvox_actors::{
    cluster::own_prefixes::OwnPrefixesView,
    endpoints::ipam::{AddressFamily, PoolUse, PoolsDemand},
};

/// How it stands with several pools.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct PodPools {
    /// Of each pool and family, how much is used and needed.
    pub pools: Vec<PodPool>,
    /// This node's prefixes.
    pub prefixes: Vec<PodPoolPrefix>,
    /// Prefixes that were given back since the agent's start.
    pub given_back: u64,
    /// What is done just now.
    pub doing: String,
    /// What is wrong; empty if nothing is.
    pub trouble: String,
}

/// A pool, of one family.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct PodPool {
    /// Its name.
    pub pool: String,
    /// `ipv4` or `ipv6`.
    pub family: String,
    /// Addresses that can be handed out here, those that somebody has among them.
    pub capacity: u64,
    /// Addresses that somebody has.
    pub used: u64,
    /// Pods that wait for one, or did so minutes ago.
    pub pending: u64,
    /// How many there should be.
    pub needed: u64,
}

/// A prefix of this node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct PodPoolPrefix {
    /// Its pool.
    pub pool: String,
    /// The prefix.
    pub prefix: String,
    /// Addresses of it that somebody has.
    pub used: u64,
    /// `home`, `open`, `new`, `leaving` or `lost`.
    pub state: String,
}

impl PodPools {
    /// What IPAM and the owner of prefixes say.
    pub fn new(view: &OwnPrefixesView, demand: &PoolsDemand) -> Self {
        let pool = |((pool, family), it): (&(String, AddressFamily), &PoolUse)| {
            let PoolUse { capacity, used, pending, needed } = *it;
            let family = family.to_string().to_lowercase();
            PodPool { pool: pool.clone(), family, capacity, used, pending, needed }
        };
        let used: &BTreeMap<IpNet, u64> = &demand.used;
        let prefixes = view.prefixes.iter().map(|(prefix, it)| PodPoolPrefix {
            pool: it.pool.clone(),
            prefix: prefix.to_string(),
            used: used.get(prefix).copied().unwrap_or(it.used),
            state: it.state.to_owned(),
        });
        Self {
            pools: demand.pools.iter().map(pool).collect(),
            prefixes: prefixes.collect(),
            given_back: view.given_back,
            doing: view.doing.to_owned(),
            trouble: view.trouble.clone(),
        }
    }
}
