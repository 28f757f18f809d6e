//! A look at single rows of the ipcache, which costs one call.

use std::{net::Ipv4Addr, path::Path};

use anyhow::{Context, Result};
use aya::maps::{
    Map, MapData,
    lpm_trie::{Key, LpmTrie},
};
use volvox_bpf_progs::layouts::IpcacheKey;

/// Bytes of a key behind its length, and of a row.
const KEY: usize = size_of::<IpcacheKey>() - 4;
const ROW: usize = size_of::<volvox_bpf_progs::layouts::IpcacheRow>();

/// The node's ipcache.
pub(super) struct Ipcache(LpmTrie<MapData, [u8; KEY], [u8; ROW]>);

impl Ipcache {
    pub(super) fn open(bpf_root: &Path) -> Result<Self> {
        let pin = bpf_root.join("tc/globals/cilium_ipcache_v2");
        let map =
            MapData::from_pin(&pin).with_context(|| format!("cannot open {}", pin.display()))?;
        Ok(Self(Map::LpmTrie(map).try_into()?))
    }

    /// The identity of the longest prefix around an address; 0 if there is none.
    pub(super) fn identity(&self, address: Ipv4Addr) -> u32 {
        let key = IpcacheKey::new(address.into(), 32);
        let mut data = [0; KEY];
        data[3] = key.family;
        data[4..].copy_from_slice(&key.address);
        let row = self.0.get(&Key::new(key.prefix_len, data), 0);
        row.map_or(0, |row| u32::from_ne_bytes([row[0], row[1], row[2], row[3]]))
    }
}
