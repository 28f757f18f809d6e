//! Rows of a kernel snapshot, sorted by the endpoint that owns them.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use super::{ConfigRow, KernelSnapshot, LxcRow};
use crate::model::EndpointId;

/// What a snapshot shows, by whose it is. Searched for one endpoint after the other, the rows of
/// all would be read once for each.
#[derive(Clone, Debug, Default)]
pub struct OwnedRows {
    /// Rows of `volvox_config`; of two that name one endpoint, the first by interface.
    pub config: BTreeMap<EndpointId, ConfigRow>,
    /// Rows of `cilium_lxc`.
    pub lxc: BTreeMap<EndpointId, BTreeMap<IpAddr, LxcRow>>,
    /// Routed addresses, by interface.
    pub routes: BTreeMap<u32, BTreeSet<IpAddr>>,
    /// Endpoints whose policy map is pinned.
    pub policy_pins: BTreeSet<EndpointId>,
}

impl OwnedRows {
    /// Sorts what a snapshot shows.
    pub fn of(kernel: &KernelSnapshot) -> Self {
        let (mut lxc, mut routes) = (BTreeMap::<_, BTreeMap<_, _>>::new(), BTreeMap::new());
        for (&address, &row) in &kernel.lxc {
            lxc.entry(EndpointId(row.endpoint)).or_default().insert(address, row);
        }
        for (&address, &ifindex) in &kernel.routes {
            routes.entry(ifindex).or_insert_with(BTreeSet::new).insert(address);
        }
        Self {
            config: kernel.config.values().rev().map(|row| (row.endpoint, *row)).collect(),
            lxc,
            routes,
            policy_pins: kernel.policy_pins.iter().copied().collect(),
        }
    }
}
