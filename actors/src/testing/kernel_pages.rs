//! The memory kernel's rows, a page at a time.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::kernel_state::KernelState;
use crate::ports::{PageRows, PolicyCheck, RowMap, RowPage};

/// Pages of a map. Which of them a row is on, its key alone decides, as with the kernel's.
const PAGES: u8 = 2;

/// Rows that are on a page.
fn cut<K: Hash, V>(page: u8, all: impl Iterator<Item = (K, V)>) -> Vec<(K, V)> {
    let is_on = |key: &K| {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        hasher.finish() % u64::from(PAGES) == u64::from(page)
    };
    all.filter(|(key, _)| is_on(key)).collect()
}

fn keys<K: Hash>(page: u8, all: impl Iterator<Item = K>) -> Vec<K> {
    cut(page, all.map(|key| (key, ()))).into_iter().map(|(key, ())| key).collect()
}

impl KernelState {
    /// Some rows of a map, from a place on.
    pub(super) fn page(&self, map: RowMap, from: Option<&[u8]>) -> RowPage {
        let page = from.and_then(|from| from.first().copied()).unwrap_or_default();
        let (kernel, services) = (&self.rows, &self.services);
        let is_of = |is_ipv4: bool| map.is_ipv4() == Some(is_ipv4);
        let rows = match map {
            RowMap::Ipcache => {
                let all = kernel.ipcache.iter().map(|(key, row)| (*key, Some(*row)));
                PageRows::Ipcache(cut(page, all))
            }
            RowMap::Lxc => {
                PageRows::Lxc(cut(page, kernel.lxc.iter().map(|(key, row)| (*key, Some(*row)))))
            }
            RowMap::Node => PageRows::Node(self.routing.is_as_told()),
            RowMap::Unused => PageRows::Unused(services.unused),
            RowMap::Backends4 | RowMap::Backends6 => {
                let all = services.backends.iter().filter(|((_, it), _)| is_of(*it));
                let mistaken = services.mistaken.keys().filter(|(_, it)| is_of(*it));
                let mistaken = mistaken.map(|(id, _)| (*id, None));
                let all = all.map(|((id, _), row)| (*id, Some(*row)));
                PageRows::Backends(cut(page, all.chain(mistaken)))
            }
            RowMap::Slots4 | RowMap::Slots6 => {
                let all = services.slots.iter();
                let all = all.filter(|((at, _), _)| is_of(at.at.address.is_ipv4()));
                PageRows::Slots(cut(page, all.map(|(key, row)| (*key, Some(*row)))))
            }
            RowMap::Members4 | RowMap::Members6 => {
                let all = services.members.iter().filter(|((_, it), _)| is_of(*it));
                PageRows::Members(cut(page, all.map(|((key, _), row)| (*key, Some(*row)))))
            }
            RowMap::ReverseNat4 | RowMap::ReverseNat6 => {
                let all = services.reverse_nat.iter().filter(|((_, it), _)| is_of(*it));
                PageRows::ReverseNat(cut(page, all.map(|((id, _), at)| (*id, Some(*at)))))
            }
            RowMap::AffinityMatches => {
                PageRows::AffinityMatches(keys(page, services.affinity.iter().copied()))
            }
            RowMap::SourceRanges4 | RowMap::SourceRanges6 => {
                let all = services.ranges.iter().copied();
                let all = all.filter(|(_, range)| is_of(range.addr().is_ipv4()));
                PageRows::SourceRanges(keys(page, all))
            }
            RowMap::Maglev4 | RowMap::Maglev6 => {
                let all = services.maglev.keys().filter(|(_, it)| is_of(*it));
                PageRows::Maglev(keys(page, all.map(|(id, _)| *id)))
            }
        };
        let is_whole = matches!(rows, PageRows::Node(_) | PageRows::Unused(_));
        let next = (page + 1 < PAGES && !is_whole).then(|| Box::from([page + 1]));
        RowPage { rows, strange: Vec::new(), next }
    }

    /// Whether an endpoint's policy map, or its pin, is not as it was written.
    pub(super) fn differs(&self, check: &PolicyCheck) -> bool {
        let config = self.rows.config.get(&check.ifindex);
        let slot = config.filter(|row| row.endpoint == check.endpoint).map(|row| row.policy_slot);
        let Some(slot) = slot else { return false };
        self.slots.get(&slot) != Some(&*check.rows)
            || self.pins.get(&check.endpoint).is_some_and(|pinned| *pinned != slot)
    }
}
