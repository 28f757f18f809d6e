//! The backend rows in the kernel's map, and a check that backends keep their numbers.

use std::{collections::BTreeMap, net::SocketAddrV4};

use anyhow::{Result, ensure};
use aya::maps::{HashMap, Map, MapData};
use volvox_bpf_progs::layouts::Backend4Row;
use volvox_testbed::lab::Node;

/// Where the kernel has each backend, whoever wrote that.
#[derive(Debug, Default)]
pub(super) struct Rows(pub(super) BTreeMap<u32, SocketAddrV4>);

impl Rows {
    pub(super) fn read(node: &Node) -> Result<Self> {
        let pin = node.bpf_root().join("tc/globals/cilium_lb4_backends_v3");
        let map = Map::HashMap(MapData::from_pin(pin)?);
        let map: HashMap<_, u32, Backend4Row> = HashMap::try_from(map)?;
        let rows = map.iter().map(|row| row.map(|(id, row)| (id, row.socket())));
        Ok(Self(rows.collect::<Result<_, _>>()?))
    }

    /// Fails unless each number that is in both is the same backend's, and each backend has one number.
    pub(super) fn ensure_kept(&self, later: &Self) -> Result<()> {
        let by_place: BTreeMap<_, _> = later.0.iter().map(|(id, at)| (at, id)).collect();
        ensure!(by_place.len() == later.0.len(), "a backend has two numbers: {later:?}");
        for (id, at) in &self.0 {
            let now = later.0.get(id);
            ensure!(now.is_none_or(|now| now == at), "number {id} was {at}'s, is {now:?}'s");
            let now = by_place.get(at);
            ensure!(now.is_none_or(|now| *now == id), "{at} had number {id}, has {now:?}");
        }
        Ok(())
    }
}
