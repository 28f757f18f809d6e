//! Rows for the ports that nobody serves.

use std::net::IpAddr;

use crate::{
    model::drift::{DriftByMap, DriftKind},
    ports::{RowMap, SlotRow},
    services::service_cache::wildcards::{SeenWildcards, Wildcards},
};

impl Wildcards {
    /// From now on rows are seen.
    pub(super) fn begin_sweep(&mut self) {
        let skipped = self.flying.keys().copied().collect();
        self.seen = Some(SeenWildcards { skipped, ..SeenWildcards::default() });
    }

    /// A row of the kernel; without a value it is one that nobody writes.
    pub(super) fn see(&mut self, address: IpAddr, row: Option<SlotRow>) {
        let Some(seen) = &mut self.seen else { return };
        let is_right = row == Some(SlotRow::default());
        let all = if is_right { &mut seen.right } else { &mut seen.wrong };
        all.insert(address);
    }

    /// The map was read to its end: what is missing or another is written again, and what is nobody's
    /// goes.
    pub(super) fn end_map(&mut self, map: RowMap, is_ipv4: bool, found: &mut DriftByMap) {
        let Some(seen) = &mut self.seen else { return };
        let is_judged =
            |address: &IpAddr| address.is_ipv4() == is_ipv4 && !seen.skipped.contains(address);
        let rows = self.addresses.iter().filter(|(_, row)| row.kernel == Some(true));
        let not_right = rows.map(|(address, _)| *address);
        let not_right = not_right.filter(|it| is_judged(it) && !seen.right.contains(it));
        let not_right: Vec<_> = not_right.collect();
        let all = seen.right.iter().chain(&seen.wrong).copied();
        let is_foreign = |address: &IpAddr| {
            let row = self.addresses.get(address);
            is_judged(address) && row.is_none_or(|row| row.kernel == Some(false))
        };
        let foreign: Vec<_> = all.filter(is_foreign).collect();
        for address in not_right {
            let is_there = seen.wrong.contains(&address);
            found.note(
                map.name(),
                if is_there { DriftKind::Changed } else { DriftKind::Missing },
                address,
            );
            if let Some(row) = self.addresses.get_mut(&address) {
                row.kernel = None;
            }
            self.due.insert(address);
        }
        for address in foreign {
            found.note(map.name(), DriftKind::Foreign, address);
            self.take_foreign(address);
        }
    }

    /// The sweep is over.
    pub(super) fn end_sweep(&mut self) {
        self.seen = None;
    }
}
