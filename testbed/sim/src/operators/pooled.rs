//! Nodes that get prefixes of several pools: their agents ask for addresses and give prefixes back, and
//! people change the pools, two of which overlap.

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;
use serde_json::{Value, json};
use volvox_actors_simulated::{
    operator::{NewPodPool, PrefixSource},
    testing::MemoryCluster,
};

use crate::random::Random;

/// Pools as they come, each with what it changes to.
const POOLS: [(&str, [(&str, u8); 2]); 3] = [
    ("blue", [("10.0.0.0/27", 29), ("10.0.0.0/26", 30)]),
    ("green", [("10.1.0.0/27", 30), ("10.2.0.0/28", 30)]),
    ("red", [("10.0.0.16/28", 30), ("10.0.0.0/28", 29)]),
];
/// Made by operators.
const MADE: &str = "blue=ipv4-cidrs:10.0.0.0/27;ipv4-mask-size:29";
const NEEDED_MAX: usize = 14;

/// What agents and people know of pools.
#[derive(Default)]
pub(super) struct PooledTruth {
    /// What each CiliumNode has that its agent did not give back, by UID.
    held: BTreeMap<String, BTreeSet<(String, String)>>,
}

fn cilium_node(cluster: &MemoryCluster, name: &str) -> Value {
    cluster.object("CiliumNode", "", name).unwrap_or_default()
}

/// Each prefix, with its pool.
fn allocated(node: &Value) -> BTreeSet<(String, String)> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let of = |pool: Value| {
        let name = text(&pool["pool"]);
        let cidrs = list(&pool["cidrs"]);
        cidrs.iter().map(|cidr| (name.clone(), text(cidr))).collect::<Vec<_>>()
    };
    list(&node["spec"]["ipam"]["pools"]["allocated"]).into_iter().flat_map(of).collect()
}

/// How many addresses it asks for, by pool.
fn requested(node: &Value) -> BTreeMap<String, u64> {
    let all = node["spec"]["ipam"]["pools"]["requested"].as_array().into_iter().flatten();
    all.filter_map(|it| {
        Some((it["pool"].as_str()?.to_owned(), it["needed"]["ipv4-addrs"].as_u64()?))
    })
    .collect()
}

fn overlap(one: &IpNet, other: &IpNet) -> bool {
    one.contains(other) || other.contains(one)
}

impl PooledTruth {
    /// The first pools of a cluster: one more is made by operators.
    pub(super) fn new(cluster: &MemoryCluster) -> Self {
        cluster.define("ciliumpodippools.cilium.io", true);
        apply(cluster, 2, 0);
        Self::default()
    }

    /// What operators are told.
    pub(super) fn prefixes(&self) -> PrefixSource {
        PrefixSource::MultiPool(NewPodPool::read_all(MADE).unwrap_or_default())
    }

    /// Something happens to a node or to a pool.
    pub(super) fn act(
        &mut self,
        cluster: &MemoryCluster,
        nodes: &BTreeMap<String, String>,
        random: &mut Random,
    ) -> String {
        let names: Vec<&String> = nodes.keys().collect();
        match random.roll(8) {
            0 => {
                let (pool, form) = (random.roll(POOLS.len()), random.roll(2));
                apply(cluster, pool, form);
                format!("pool {} is {:?} now", POOLS[pool].0, POOLS[pool].1[form])
            }
            1 => {
                let name = POOLS[random.roll(POOLS.len())].0;
                if let Some(pool) = cluster.object("CiliumPodIPPool", "", name) {
                    cluster.delete(&pool);
                }
                format!("pool {name} is removed")
            }
            _ if names.is_empty() => "no node asks for anything".to_owned(),
            2..=4 => {
                let name = random.one_of(&names);
                let pool = POOLS[random.roll(POOLS.len())].0;
                let needed = random.roll(NEEDED_MAX) as u64;
                ask(cluster, name, pool, needed);
                format!("{name} asks for {needed} of {pool}")
            }
            _ => {
                let name = random.one_of(&names);
                self.give_back(cluster, name, random)
            }
        }
    }

    fn give_back(&mut self, cluster: &MemoryCluster, name: &str, random: &mut Random) -> String {
        let mut node = cilium_node(cluster, name);
        let mut has: Vec<_> = allocated(&node).into_iter().collect();
        if has.is_empty() {
            return format!("{name} has nothing to give back");
        }
        let given_back = has.remove(random.roll(has.len()));
        // Its agent does not need that much any more.
        let mut by_pool: BTreeMap<String, Vec<String>> = BTreeMap::new();
        has.into_iter().for_each(|(pool, cidr)| by_pool.entry(pool).or_default().push(cidr));
        let entry = |(pool, cidrs)| json!({ "pool": pool, "cidrs": cidrs });
        let all: Vec<Value> = by_pool.into_iter().map(entry).collect();
        node["spec"]["ipam"]["pools"]["allocated"] = all.into();
        let uid = node["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        cluster.apply(node);
        ask(cluster, name, &given_back.0, 0);
        self.held.entry(uid).or_default().remove(&given_back);
        format!("{name} gives {} back", given_back.1)
    }

    /// The first thing that is wrong.
    pub(super) fn complaint(
        &mut self,
        cluster: &MemoryCluster,
        nodes: &BTreeMap<String, String>,
    ) -> Option<String> {
        let mut owners: Vec<(IpNet, &String)> = Vec::new();
        for (name, uid) in nodes {
            let has = allocated(&cilium_node(cluster, name));
            let held = self.held.entry(uid.clone()).or_default();
            if let Some((pool, lost)) = held.iter().find(|it| !has.contains(it)) {
                return Some(format!("node {name} lost {lost} of pool {pool}: it has {has:?}"));
            }
            for cidr in has.iter().filter_map(|(_, cidr)| cidr.parse().ok()) {
                if let Some((other, whose)) = owners.iter().find(|(it, _)| overlap(it, &cidr)) {
                    return Some(format!("{cidr} is {name}'s, and {other} is {whose}'s"));
                }
                owners.push((cidr, name));
            }
            *held = has;
        }
        None
    }

    /// What was not done although nothing stood in the way.
    pub(super) fn undone(
        &self,
        cluster: &MemoryCluster,
        nodes: &BTreeMap<String, String>,
    ) -> Option<String> {
        let parsed = |node: &Value| -> Vec<IpNet> {
            allocated(node).iter().filter_map(|(_, cidr)| cidr.parse().ok()).collect()
        };
        let all: Vec<IpNet> =
            nodes.keys().flat_map(|name| parsed(&cilium_node(cluster, name))).collect();
        for name in nodes.keys() {
            let node = cilium_node(cluster, name);
            let has = allocated(&node);
            for (pool, needed) in requested(&node) {
                let own = has.iter().filter(|(of, _)| *of == pool);
                let own = own.filter_map(|(_, cidr)| cidr.parse::<IpNet>().ok());
                let have: u64 = own.map(|cidr| (1_u64 << (32 - cidr.prefix_len())) - 2).sum();
                if have >= needed {
                    continue;
                }
                let error = &node["status"]["ipam"]["operator-status"]["error"];
                if error.as_str().unwrap_or_default().is_empty() {
                    return Some(format!(
                        "node {name} lacks addresses of {pool} and is not told why"
                    ));
                }
                if let Some(free) = free(cluster, &pool, &all) {
                    return Some(format!(
                        "node {name} lacks addresses of {pool}, and {free} is free"
                    ));
                }
            }
        }
        None
    }
}

/// A prefix of a pool that nobody has.
fn free(cluster: &MemoryCluster, pool: &str, all: &[IpNet]) -> Option<IpNet> {
    let pool = cluster.object("CiliumPodIPPool", "", pool)?;
    let ipv4 = &pool["spec"]["ipv4"];
    let range: IpNet = ipv4["cidrs"][0].as_str()?.parse().ok()?;
    let length = u8::try_from(ipv4["maskSize"].as_u64()?).ok()?;
    range.subnets(length).ok()?.find(|one| !all.iter().any(|it| overlap(it, one)))
}

/// Somebody makes a pool, or changes it.
fn apply(cluster: &MemoryCluster, pool: usize, form: usize) {
    let (name, forms) = POOLS[pool];
    let (cidr, length) = forms[form];
    cluster.apply(json!({
        "kind": "CiliumPodIPPool",
        "metadata": { "name": name, "uid": format!("pool-{name}") },
        "spec": { "ipv4": { "cidrs": [cidr], "maskSize": length } },
    }));
}

/// An agent says how many addresses it needs of a pool.
fn ask(cluster: &MemoryCluster, name: &str, pool: &str, needed: u64) {
    let mut node = cilium_node(cluster, name);
    let mut all = requested(&node);
    all.insert(pool.to_owned(), needed);
    let entry = |(pool, needed)| json!({ "pool": pool, "needed": { "ipv4-addrs": needed } });
    let all: Vec<Value> = all.into_iter().map(entry).collect();
    node["spec"]["ipam"]["pools"]["requested"] = all.into();
    cluster.apply(node);
}
