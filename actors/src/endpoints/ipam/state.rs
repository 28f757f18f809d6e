//! What IPAM is made of: its peers, and requests that wait.

use std::{collections::BTreeMap, net::IpAddr, time::Duration};

use super::{
    AddressFamily, Allocated, IpamError, PoolsDemand, allocations::AddressAllocations,
    answers::PendingPod,
};
use crate::{
    endpoints::workloads::{PodPoolNames, WorkloadsMsg},
    host::{Lent, Outlet, Ref, Reply, Time, TimerId},
};

/// How long one waits in all: the CNI plugin gives up after ten seconds.
pub(super) const PATIENCE: Duration = Duration::from_secs(8);

/// How many questions wait for the end of restore; the next ones are told to come again.
pub(super) const WAITING_MAX: usize = 256;

/// Whom IPAM talks to, where there are several pools.
#[derive(Clone, Default)]
pub struct IpamPeers {
    /// Who knows of which pool a pod is.
    pub workloads: Option<Ref<WorkloadsMsg>>,
    /// Who hears how much is needed of each pool.
    pub demand: Option<Outlet<PoolsDemand>>,
}

/// The owner of all addresses.
pub struct Ipam {
    pub(super) peers: IpamPeers,
    /// Outlives a crash: an address that has a holder must never be handed out again.
    pub(super) allocations: Lent<AddressAllocations>,
    pub(super) timers: BTreeMap<IpAddr, TimerId>,
    /// Requests that wait for the end of restore, with the pool that each names.
    pub(super) waiting: Vec<(AllocationRequest, Option<String>)>,
    /// Those that wait for something else.
    pub(super) waiting_requests: WaitingRequests,
}

/// A request for addresses.
pub(super) struct AllocationRequest {
    pub(super) family: Option<AddressFamily>,
    pub(super) owner: String,
    pub(super) expires: Option<Duration>,
    /// Until when it may wait for its pool, where there are several.
    pub(super) until: Time,
    pub(super) reply: Reply<Result<Allocated, IpamError>>,
}

/// Requests that wait, and who needs addresses that are not there.
#[derive(Default)]
pub(super) struct WaitingRequests {
    /// The number of the last request.
    pub(super) last: u64,
    /// Those whose pod's pool is asked for.
    pub(super) choosing: BTreeMap<u64, AllocationRequest>,
    /// Those whose pools have no free address, in the order in which they came.
    pub(super) lacking: BTreeMap<u64, (AllocationRequest, PodPoolNames)>,
    /// Who needs an address, and since which request.
    pub(super) pending: BTreeMap<PendingPod, u64>,
    /// What the giver of prefixes says is wrong.
    pub(super) said: String,
    /// What was told last of what is needed.
    pub(super) told: Option<PoolsDemand>,
}

impl WaitingRequests {
    pub(super) fn count(&self) -> usize {
        self.choosing.len() + self.lacking.len()
    }

    /// How many wait for addresses of each pool.
    pub(super) fn pending(&self) -> BTreeMap<(String, AddressFamily), u64> {
        let mut counts = BTreeMap::new();
        for (pool, family, _) in self.pending.keys() {
            *counts.entry((pool.clone(), *family)).or_default() += 1;
        }
        counts
    }
}
