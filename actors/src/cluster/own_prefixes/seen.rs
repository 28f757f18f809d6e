//! This node's CiliumNode, as it was seen: in which version, and what it says of pools.

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;
use serde_json::{Value, json};

use crate::endpoints::ipam::AddressFamily;

/// Says which life of the agent looked at a CiliumNode first.
pub(super) const MARK: &str = "volvox.io/prefixes-of";

/// How many addresses are needed, by pool and family.
pub type Requests = BTreeMap<(String, AddressFamily), u64>;

/// The CiliumNode.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct SeenOwnNode {
    version: String,
    pub(super) mark: Option<String>,
    /// What it says of pools, as it stands there.
    pub(super) pools: Value,
    /// What it has of pools, as it stands there, texts that are no prefixes among it.
    allocated: Vec<(String, Vec<String>)>,
    /// The prefix of each family of a node that had one only.
    single: BTreeSet<IpNet>,
    /// What the operator says is wrong.
    pub(super) error: String,
}

impl SeenOwnNode {
    pub(super) fn read(node: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let ipam = &node["spec"]["ipam"];
        let entry = |it: &Value| (text(&it["pool"]), list(&it["cidrs"]).iter().map(text).collect());
        let single = list(&ipam["podCIDRs"]);
        Self {
            version: text(&node["metadata"]["resourceVersion"]),
            mark: node["metadata"]["annotations"][MARK].as_str().map(str::to_owned),
            pools: pools_of(node),
            allocated: list(&ipam["pools"]["allocated"]).iter().map(entry).collect(),
            single: single.iter().filter_map(|it| prefix(it.as_str()?)).collect(),
            error: text(&node["status"]["ipam"]["operator-status"]["error"]),
        }
    }

    /// Each prefix, with its pool.
    pub(super) fn prefixes(&self) -> impl Iterator<Item = (&str, IpNet)> {
        let all = self.allocated.iter();
        all.flat_map(|(pool, cidrs)| {
            cidrs.iter().filter_map(move |it| Some((pool.as_str(), prefix(it)?)))
        })
    }

    /// Whether the prefix is this node's alone.
    pub(super) fn has(&self, prefix: &IpNet) -> bool {
        self.is_allocated(prefix) || self.single.contains(prefix)
    }

    /// Whether it is the node's of a pool.
    pub(super) fn is_allocated(&self, prefix: &IpNet) -> bool {
        self.prefixes().any(|(_, it)| it == *prefix)
    }

    /// What is to stand there, in the version that was seen, if that is something else: without some
    /// prefixes, and with some others.
    pub(super) fn patch(
        &self,
        requests: &Requests,
        without: &BTreeSet<IpNet>,
        more: &BTreeMap<IpNet, String>,
    ) -> Option<Value> {
        let mut allocated = self.allocated.clone();
        for (_, cidrs) in &mut allocated {
            cidrs.retain(|text| prefix(text).is_none_or(|it| !without.contains(&it)));
        }
        for (cidr, pool) in more.iter().filter(|(cidr, _)| !self.has(cidr)) {
            match allocated.iter_mut().find(|(name, _)| name == pool) {
                Some((_, cidrs)) => cidrs.push(cidr.to_string()),
                None => allocated.push((pool.clone(), vec![cidr.to_string()])),
            }
        }
        allocated.retain(|(_, cidrs)| !cidrs.is_empty());
        let mut pools = json!({});
        if allocated != self.allocated {
            let entry =
                |(pool, cidrs): &(String, Vec<String>)| json!({ "pool": pool, "cidrs": cidrs });
            pools["allocated"] = allocated.iter().map(entry).collect();
        }
        let requested = requested_json(requests);
        let had = &self.pools["requested"];
        let is_nothing = |it: &Value| it.as_array().is_none_or(Vec::is_empty);
        if *had != requested && !(is_nothing(had) && is_nothing(&requested)) {
            pools["requested"] = requested;
        }
        let is_news = pools.as_object().is_some_and(|it| !it.is_empty());
        is_news.then(|| self.versioned(json!({ "spec": { "ipam": { "pools": pools } } })))
    }

    /// A patch that marks the object as seen by that life.
    pub(super) fn marked(&self, mark: &str) -> Value {
        self.versioned(json!({ "metadata": { "annotations": { MARK: mark } } }))
    }

    fn versioned(&self, mut patch: Value) -> Value {
        patch["metadata"]["resourceVersion"] = self.version.as_str().into();
        patch
    }
}

/// What a CiliumNode says of pools.
pub(super) fn pools_of(node: &Value) -> Value {
    node["spec"]["ipam"]["pools"].clone()
}

/// What an agent asks for, as Cilium's does.
pub fn requested_json(requests: &Requests) -> Value {
    let mut by_pool = BTreeMap::<&str, Value>::new();
    for ((pool, family), needed) in requests.iter().filter(|(_, needed)| **needed > 0) {
        let name = match family {
            AddressFamily::Ipv4 => "ipv4-addrs",
            AddressFamily::Ipv6 => "ipv6-addrs",
        };
        by_pool.entry(pool).or_insert_with(|| json!({}))[name] =
            (*needed).min(i64::MAX as u64).into();
    }
    let entry = |(pool, needed)| json!({ "pool": pool, "needed": needed });
    by_pool.into_iter().map(entry).collect()
}

fn prefix(text: &str) -> Option<IpNet> {
    text.parse::<IpNet>().ok().map(|it| it.trunc())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node() -> SeenOwnNode {
        SeenOwnNode::read(&json!({
            "metadata": { "resourceVersion": "7", "annotations": { MARK: "x" } },
            "spec": { "ipam": { "podCIDRs": ["10.9.0.0/24"], "pools": {
                "requested": [{ "pool": "a", "needed": { "ipv4-addrs": 16 } }],
                "allocated": [
                    { "pool": "a", "cidrs": ["10.0.0.0/28", "rubbish", "10.0.0.16/28"] },
                    { "pool": "b", "cidrs": ["10.1.0.0/28"] },
                ],
            } } },
            "status": { "ipam": { "operator-status": { "error": "used up" } } },
        }))
    }

    #[test]
    fn what_stands_there_is_changed_in_its_version_and_where_it_differs() {
        let node = node();
        let net = |text: &str| text.parse::<IpNet>().unwrap();
        assert_eq!((node.mark.as_deref(), node.error.as_str()), (Some("x"), "used up"));
        assert!(node.has(&net("10.9.0.0/24")) && !node.is_allocated(&net("10.9.0.0/24")));
        let requests = Requests::from([(("a".to_owned(), AddressFamily::Ipv4), 16)]);
        let (none, nothing) = (BTreeSet::new(), BTreeMap::new());
        assert_eq!(node.patch(&requests, &none, &nothing), None);
        let without = [net("10.0.0.16/28"), net("10.1.0.0/28")].into();
        let more = [(net("10.2.0.0/28"), "c".to_owned())].into();
        let patch = node.patch(&Requests::new(), &without, &more).unwrap();
        assert_eq!(patch["metadata"]["resourceVersion"], "7");
        let allocated = json!([
            { "pool": "a", "cidrs": ["10.0.0.0/28", "rubbish"] },
            { "pool": "c", "cidrs": ["10.2.0.0/28"] },
        ]);
        let pools = json!({ "requested": [], "allocated": allocated });
        assert_eq!(patch["spec"]["ipam"]["pools"], pools);
    }

    #[test]
    fn families_of_one_pool_are_asked_for_together() {
        let of = |pool: &str, family| (pool.to_owned(), family);
        let requests = Requests::from([
            (of("a", AddressFamily::Ipv4), 16),
            (of("a", AddressFamily::Ipv6), 32),
            (of("b", AddressFamily::Ipv6), 0),
        ]);
        let needed = json!({ "ipv4-addrs": 16, "ipv6-addrs": 32 });
        assert_eq!(requested_json(&requests), json!([{ "pool": "a", "needed": needed }]));
    }
}
