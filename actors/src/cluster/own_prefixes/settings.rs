//! What the owner of the node's prefixes has to know.

use std::collections::BTreeMap;

use ipnet::IpNet;

use crate::{
    endpoints::ipam::{Pools, SeveralPools},
    model::Families,
    state_directory::{PoolPrefix, PoolPrefixes, PoolRecord},
};

/// What this node is, and what an earlier life had.
#[derive(Clone, Debug)]
pub struct OwnPrefixesSettings {
    /// Its name in the cluster.
    pub node: String,
    /// Name of the default pool.
    pub default_pool: String,
    /// Where the node's own address is from: these are never given back.
    pub home: Pools,
    /// What an earlier life had, if that is known.
    pub record: Option<PoolRecord>,
    /// Whether it is still so, also if nobody can be asked. Of a node that was off, the cluster may have
    /// given it away.
    pub trusted: bool,
    /// Which writing of the record is on disk.
    pub generation: u32,
    /// Another text in each life: the mark on the CiliumNode where no record was found.
    pub mark: String,
    /// Pauses are drawn by it.
    pub seed: u64,
}

impl OwnPrefixesSettings {
    /// Where the node's own addresses are from.
    pub(super) fn home(&self) -> impl Iterator<Item = IpNet> + use<> {
        let Pools { ipv4, ipv6 } = self.home;
        ipv4.map(IpNet::from).into_iter().chain(ipv6.map(IpNet::from)).map(|it| it.trunc())
    }

    /// What is the node's before anybody was asked. What is closed stays so, whatever else is not to be
    /// believed.
    pub fn prefixes(&self) -> PoolPrefixes {
        let record = self.record.iter().flat_map(|record| record.prefixes.clone());
        let mut all: PoolPrefixes = record.filter(|(_, it)| self.trusted || it.closed).collect();
        for prefix in self.home() {
            let pool = self.default_pool.clone();
            let home = PoolPrefix { closed: false, pool };
            all.entry(prefix).or_insert(home);
        }
        all
    }
}

/// How addresses of several pools are had and handed out.
#[derive(Clone, Debug)]
pub struct PodPoolsSettings {
    /// What the node has of them.
    pub prefixes: OwnPrefixesSettings,
    /// How many addresses are to be free, by pool.
    pub pre_allocation: BTreeMap<String, u32>,
    /// In which families pods keep their addresses towards prefixes of this node.
    pub unmasqueraded: Families,
}

impl PodPoolsSettings {
    /// What is told to IPAM.
    pub(crate) fn several(&self, families: Families) -> SeveralPools {
        SeveralPools {
            default_pool: self.prefixes.default_pool.clone(),
            pre_allocation: self.pre_allocation.clone(),
            families,
            prefixes: self.prefixes.prefixes(),
        }
    }
}
