//! What a node asks of pools, and what it has of them, as its CiliumNode says it.

use std::collections::BTreeMap;

use ipnet::IpNet;
use serde_json::{Value, json};

use crate::operator::prefixes::{Family, SeenNode};

/// Families, as a request names them.
const NEEDED: [(&str, Family); 2] = [("ipv4-addrs", Family::V4), ("ipv6-addrs", Family::V6)];

/// A CiliumNode.
#[derive(Clone, Debug, Default)]
pub(super) struct PooledNode {
    pub(super) seen: SeenNode,
    /// How many addresses it needs of each pool and family.
    pub(super) needed: BTreeMap<(String, Family), u128>,
    /// What it has, as it stands there, texts that are no prefixes among it.
    allocated: Vec<(String, Vec<String>)>,
    /// What it has of the time when each node had one prefix.
    single: Vec<IpNet>,
}

impl PooledNode {
    pub(super) fn read(value: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let ipam = &value["spec"]["ipam"];
        let mut needed = BTreeMap::new();
        for request in list(&ipam["pools"]["requested"]) {
            for (field, family) in NEEDED {
                let more = u128::from(request["needed"][field].as_u64().unwrap_or_default());
                let known = needed.entry((text(&request["pool"]), family)).or_default();
                *known = more.max(*known);
            }
        }
        let entry = |it: &Value| (text(&it["pool"]), list(&it["cidrs"]).iter().map(text).collect());
        let single = list(&ipam["podCIDRs"]);
        Self {
            seen: SeenNode::read(value),
            needed,
            allocated: list(&ipam["pools"]["allocated"]).iter().map(entry).collect(),
            single: single.iter().filter_map(|it| it.as_str()?.parse().ok()).collect(),
        }
    }

    /// All that it has, with the pool; none for a prefix of the node alone.
    pub(super) fn has(&self) -> impl Iterator<Item = (Option<&str>, IpNet)> {
        let single = self.single.iter().map(|cidr| (None, *cidr));
        single.chain(self.allocated.iter().flat_map(|(pool, cidrs)| {
            cidrs.iter().filter_map(move |it| Some((Some(pool.as_str()), it.parse().ok()?)))
        }))
    }

    /// What it has of a pool.
    pub(super) fn of<'a>(&'a self, pool: &'a str) -> impl Iterator<Item = IpNet> + 'a {
        self.has().filter_map(move |(of, cidr)| (of == Some(pool)).then_some(cidr))
    }

    /// A patch, in the version that was seen, that gives it these besides.
    pub(super) fn given(&self, more: &BTreeMap<String, Vec<IpNet>>) -> Value {
        let mut all = self.allocated.clone();
        for (pool, cidrs) in more {
            let lacking = cidrs.iter().filter(|cidr| !self.of(pool).any(|had| had == **cidr));
            let lacking: Vec<String> = lacking.map(ToString::to_string).collect();
            match all.iter_mut().find(|(name, _)| name == pool) {
                Some((_, had)) => had.extend(lacking),
                None => all.push((pool.clone(), lacking)),
            }
        }
        let entry = |(pool, cidrs)| json!({ "pool": pool, "cidrs": cidrs });
        let all: Vec<Value> = all.into_iter().map(entry).collect();
        self.seen.patch(json!({ "pools": { "allocated": all } }))
    }
}

/// How many addresses of a prefix pods can have: neither the first nor the last one, unless it is tiny.
pub(super) fn usable(cidr: &IpNet) -> u128 {
    let bits = u32::from(cidr.max_prefix_len() - cidr.prefix_len());
    let all = 1_u128.checked_shl(bits).unwrap_or(u128::MAX);
    if bits < 2 { all } else { all - 2 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_node_has_stays_as_it_stands_and_new_prefixes_are_added() {
        let node = PooledNode::read(&json!({
            "metadata": { "uid": "u", "resourceVersion": "7" },
            "spec": { "ipam": { "podCIDRs": ["10.9.0.0/24"], "pools": {
                "requested": [{ "pool": "a", "needed": { "ipv4-addrs": 16 } }],
                "allocated": [{ "pool": "a", "cidrs": ["10.0.0.0/28", "rubbish"] }],
            } } },
        }));
        assert_eq!(node.needed[&("a".to_owned(), Family::V4)], 16);
        assert_eq!(node.needed[&("a".to_owned(), Family::V6)], 0);
        let net = |text: &str| text.parse::<IpNet>().unwrap();
        let more = [
            ("a".to_owned(), vec![net("10.0.0.0/28"), net("10.0.0.16/28")]),
            ("b".to_owned(), vec![net("fd00::/64")]),
        ];
        let patch = node.given(&more.into());
        assert_eq!(patch["metadata"]["resourceVersion"], "7");
        let all = json!([
            { "pool": "a", "cidrs": ["10.0.0.0/28", "rubbish", "10.0.0.16/28"] },
            { "pool": "b", "cidrs": ["fd00::/64"] },
        ]);
        assert_eq!(patch["spec"]["ipam"], json!({ "pools": { "allocated": all } }));
        assert_eq!(node.has().count(), 2);
    }

    #[test]
    fn usable_addresses_are_counted() {
        let count = |text: &str| usable(&text.parse().unwrap());
        assert_eq!(count("10.0.0.0/24"), 254);
        assert_eq!((count("10.0.0.0/31"), count("10.0.0.0/32")), (2, 1));
        assert_eq!((count("fd00::/126"), count("::/0")), (2, u128::MAX - 2));
    }
}
