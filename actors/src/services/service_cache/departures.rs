//! Who left services and is kept for connections that go on: what is known of each.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use crate::model::{BackendId, Frontend, L4Address};

/// All that left some service.
#[derive(Debug, Default)]
pub(super) struct Leaving {
    /// Nobody is kept: connections end with their backend.
    pub(super) is_off: bool,
    pub(super) by_id: BTreeMap<BackendId, BackendDeparture>,
    pub(super) by_frontend: BTreeMap<Frontend, BTreeSet<BackendId>>,
    /// How many left so far.
    pub(super) departures: u64,
    /// Of listed backends: addresses at which nobody answers any more.
    pub(super) silent: BTreeSet<IpAddr>,
}

/// A backend that left.
#[derive(Debug)]
pub(super) struct BackendDeparture {
    pub(super) at: L4Address,
    /// When it left the last of these, in the order in which all did.
    pub(super) nth: u64,
    /// Whose connections may have it.
    pub(super) from: BTreeSet<Frontend>,
}

impl Leaving {
    /// Frontends whose connections may have one.
    pub(super) fn from(&self, id: BackendId) -> impl Iterator<Item = &Frontend> {
        self.by_id.get(&id).into_iter().flat_map(|it| &it.from)
    }

    /// All of a family with how many rows of services each has, the oldest first.
    pub(super) fn oldest(&self, is_ipv4: bool) -> Vec<(BackendId, usize)> {
        let all = self.by_id.iter().filter(|(_, it)| it.at.address.is_ipv4() == is_ipv4);
        let mut all: Vec<_> = all.map(|(id, it)| (it.nth, *id, it.from.len())).collect();
        all.sort_unstable();
        all.into_iter().map(|(_, id, rows)| (id, rows)).collect()
    }
}
