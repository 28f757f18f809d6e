//! Counts the writes to the kernel since start, by kind of object. `tally` counts them by map.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use volvox_maps::tally::{MapTally, Tallies};

/// How much was written to the kernel since start, by object.
#[derive(Clone, Debug, Default)]
pub struct Writes {
    /// Rows of `cilium_lxc`, `volvox_config`, `volvox_endpoint` and `volvox_policy`, policy rows,
    /// and pins of policy maps.
    pub(super) endpoint_maps: Arc<AtomicU64>,
    /// Links and filters made, updated or removed.
    pub(super) links: Arc<AtomicU64>,
    /// Rows of `cilium_ipcache_v2`.
    pub(super) ipcache: Arc<AtomicU64>,
    /// Rows of `volvox_node`.
    pub(super) node: Arc<AtomicU64>,
    /// Rows of connection tracking removed.
    pub(super) conntrack: Arc<AtomicU64>,
    /// Rows of the maps that balance load.
    pub(super) services: Arc<AtomicU64>,
    /// Rows of `volvox_device` and of the maps of destinations to which pods go as themselves.
    pub(super) devices: Arc<AtomicU64>,
    /// Translations of addresses removed.
    pub(super) translations: Arc<AtomicU64>,
    /// Interfaces brought up or down, routes made or removed.
    pub(super) network: Arc<AtomicU64>,
    /// The same by map.
    pub(super) tallies: Tallies,
}

impl Writes {
    /// Each map, by the name that metrics give it, and what was done to it.
    pub fn maps(&self) -> impl Iterator<Item = (&'static str, &MapTally)> {
        self.tallies.iter()
    }

    /// Each object's name and count.
    pub fn counts(&self) -> [(&'static str, u64); 9] {
        [
            ("endpoint maps", &self.endpoint_maps),
            ("links", &self.links),
            ("ipcache", &self.ipcache),
            ("node", &self.node),
            ("conntrack", &self.conntrack),
            ("services", &self.services),
            ("devices", &self.devices),
            ("translations", &self.translations),
            ("network", &self.network),
        ]
        .map(|(name, count)| (name, count.load(Ordering::Relaxed)))
    }
}

/// Counts one write.
pub(super) fn count(writes: &AtomicU64) {
    writes.fetch_add(1, Ordering::Relaxed);
}
