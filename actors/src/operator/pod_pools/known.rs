//! The pools, as CiliumPodIPPools say them.

use std::collections::BTreeMap;

use ipnet::IpNet;
use serde_json::Value;

use crate::operator::prefixes::{ClusterPools, Family, PoolRange, overlap};

/// One pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PodPool {
    /// Of what it gives. A part of it that is wrong is left out.
    pub(super) ranges: ClusterPools,
    /// What is wrong.
    pub(super) trouble: Option<String>,
}

impl PodPool {
    pub(super) fn read(spec: &Value) -> Self {
        let (mut ranges, mut trouble): (Vec<PoolRange>, _) = (Vec::new(), None);
        for (field, family) in [("ipv4", Family::V4), ("ipv6", Family::V6)] {
            let Some(said) = spec.get(field).filter(|said| !said.is_null()) else { continue };
            let Some(length) = said["maskSize"].as_u64().and_then(|it| u8::try_from(it).ok())
            else {
                trouble.get_or_insert(format!("{field} has no maskSize"));
                continue;
            };
            let texts = said["cidrs"].as_array().into_iter().flatten().filter_map(Value::as_str);
            for text in texts {
                match PoolRange::of_many(text, length) {
                    Ok(range) if !family.has(&range.range()) => {
                        trouble.get_or_insert(format!("{text} is no {} range", family.name()));
                    }
                    Ok(range) => {
                        match ranges.iter().find(|it| overlap(&it.range(), &range.range())) {
                            Some(other) => {
                                let other = other.range();
                                trouble.get_or_insert(format!(
                                    "its ranges {other} and {text} overlap"
                                ));
                            }
                            None => ranges.push(range),
                        }
                    }
                    Err(error) => drop(trouble.get_or_insert(error.to_string())),
                }
            }
        }
        Self { ranges: ClusterPools::new(ranges).unwrap_or_default(), trouble }
    }

    pub(super) fn covers(&self, cidr: &IpNet) -> bool {
        self.ranges.ranges().any(|it| it.range().contains(cidr))
    }
}

/// All of them, by name.
#[derive(Clone, Debug, Default)]
pub(super) struct PodPools(BTreeMap<String, PodPool>);

impl PodPools {
    /// A pool is so now, or is gone.
    pub(super) fn changed(&mut self, name: String, value: Option<&Value>) {
        match value {
            Some(value) => drop(self.0.insert(name, PodPool::read(&value["spec"]))),
            None => drop(self.0.remove(&name)),
        }
    }

    pub(super) fn get(&self, name: &str) -> Option<&PodPool> {
        self.0.get(name)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// What is wrong with pools. Those that overlap give nothing twice: each is told.
    pub(super) fn troubles(&self) -> BTreeMap<String, String> {
        let own = self.0.iter().filter_map(|(name, pool)| {
            let why = pool.trouble.as_ref()?;
            Some((name.clone(), format!("CiliumPodIPPool {name}: {why}: correct it")))
        });
        let mut troubles: BTreeMap<String, String> = own.collect();
        for (name, pool) in &self.0 {
            for (other, theirs) in self.0.iter().filter(|(other, _)| *other != name) {
                let common = pool.ranges.ranges().find_map(|one| {
                    let one = one.range();
                    theirs.ranges.ranges().any(|it| overlap(&it.range(), &one)).then_some(one)
                });
                if let Some(common) = common {
                    troubles.entry(name.clone()).or_insert_with(|| {
                        format!(
                            "CiliumPodIPPool {name}: addresses of {common} are in pool {other} as well: \
                             take them out of one of the two"
                        )
                    });
                }
            }
        }
        troubles
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pools(all: &[(&str, Value)]) -> PodPools {
        let mut pools = PodPools::default();
        for (name, spec) in all {
            pools.changed((*name).to_owned(), Some(&json!({ "spec": spec })));
        }
        pools
    }

    #[test]
    fn what_is_wrong_in_a_pool_leaves_the_rest_of_it() {
        let spec = json!({
            "ipv4": { "cidrs": ["10.0.0.0/16", "ten", "10.0.1.0/24", "10.1.0.0/16"], "maskSize": 24 },
            "ipv6": { "cidrs": ["fd00::/104"] },
        });
        let pools = pools(&[("a", spec)]);
        let pool = pools.get("a").unwrap();
        let ranges: Vec<_> = pool.ranges.ranges().map(|it| it.range().to_string()).collect();
        assert_eq!(ranges, ["10.0.0.0/16", "10.1.0.0/16"]);
        assert!(pools.troubles()["a"].contains("\"ten\" is no range"), "{:?}", pools.troubles());
        assert!(pool.covers(&"10.1.9.0/24".parse().unwrap()));
        assert!(!pool.covers(&"10.2.9.0/24".parse().unwrap()));
        // Prefixes of one address each are allowed, where a node has many.
        let single =
            PodPool::read(&json!({ "ipv4": { "cidrs": ["10.0.0.0/30"], "maskSize": 32 } }));
        assert_eq!((single.trouble, single.ranges.is_empty()), (None, false));
    }

    #[test]
    fn pools_that_overlap_are_both_told() {
        let of = |cidr: &str| json!({ "ipv4": { "cidrs": [cidr], "maskSize": 24 } });
        let all = [("a", of("10.0.0.0/16")), ("b", of("10.0.7.0/24")), ("c", of("10.1.0.0/16"))];
        let mut pools = pools(&all);
        let troubles = pools.troubles();
        assert_eq!(troubles.keys().collect::<Vec<_>>(), ["a", "b"]);
        assert!(troubles["b"].contains("in pool a as well"), "{troubles:?}");
        pools.changed("a".to_owned(), None);
        assert_eq!(pools.troubles(), BTreeMap::new());
    }
}
