use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

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
    /// Interfaces brought up or down, routes made or removed.
    pub(super) network: Arc<AtomicU64>,
}

impl Writes {
    /// Each object's name and count.
    pub fn counts(&self) -> [(&'static str, u64); 6] {
        [
            ("endpoint maps", &self.endpoint_maps),
            ("links", &self.links),
            ("ipcache", &self.ipcache),
            ("node", &self.node),
            ("conntrack", &self.conntrack),
            ("network", &self.network),
        ]
        .map(|(name, count)| (name, count.load(Ordering::Relaxed)))
    }
}

/// Counts one write.
pub(super) fn count(writes: &AtomicU64) {
    writes.fetch_add(1, Ordering::Relaxed);
}
