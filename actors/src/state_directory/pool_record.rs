//! Which prefixes of pools the node has, on disk: in the library directory, for what a node gave back must
//! stay so whatever else is lost.

use std::{collections::BTreeMap, net::IpAddr};

use ipnet::IpNet;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Slots;

/// A prefix of a pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolPrefix {
    /// Nothing more is handed out of it: it is being given back, or somebody took it out.
    pub closed: bool,
    /// Name of the pool.
    pub pool: String,
}

/// All that a node has of pools.
pub type PoolPrefixes = BTreeMap<IpNet, PoolPrefix>;

/// What a later life has to know of them. The fields are in the order of their names: so they are written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PoolRecord {
    /// Name of the node that it is of: a library directory may be another node's.
    pub node: String,
    /// The prefixes.
    #[serde(serialize_with = "in_order", deserialize_with = "of_texts")]
    pub prefixes: PoolPrefixes,
}

/// Members of a record stand in the order of their names, which is not that of prefixes.
fn in_order<S: Serializer>(prefixes: &PoolPrefixes, to: S) -> Result<S::Ok, S::Error> {
    let texts: BTreeMap<String, &PoolPrefix> =
        prefixes.iter().map(|(prefix, it)| (prefix.to_string(), it)).collect();
    texts.serialize(to)
}

fn of_texts<'de, D: Deserializer<'de>>(from: D) -> Result<PoolPrefixes, D::Error> {
    PoolPrefixes::deserialize(from)
}

impl PoolRecord {
    /// Where it is kept.
    pub const SLOTS: Slots<Self> = Slots::new("lib/pools");

    /// Whether pods that have these addresses got them from its prefixes: then they are of the same life of
    /// the node.
    pub fn gave(&self, addresses: impl IntoIterator<Item = IpAddr>) -> bool {
        let mut all = addresses.into_iter();
        all.any(|address| self.prefixes.keys().any(|prefix| prefix.contains(&address)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::MemoryFs;

    #[test]
    fn comes_back_as_it_was() {
        let prefix = |closed| PoolPrefix { closed, pool: "blue".to_owned() };
        let all = [("10.0.0.8/29", false), ("10.0.0.32/29", true), ("fd00::/120", true)];
        let prefixes = all.map(|(text, closed)| (text.parse().unwrap(), prefix(closed)));
        let record = PoolRecord { node: "a".to_owned(), prefixes: prefixes.into() };
        let mut fs = MemoryFs::default();
        fs.apply(&PoolRecord::SLOTS.save(&record, 1)).unwrap();
        let gave = |text: &str| record.gave([text.parse().unwrap()]);
        assert!(gave("10.0.0.9") && !gave("10.0.0.7"));
        assert_eq!(PoolRecord::SLOTS.load(&fs).value, Some(record));
    }
}
