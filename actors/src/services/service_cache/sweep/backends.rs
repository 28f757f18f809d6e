//! Rows of backends.

use std::collections::BTreeSet;

use crate::{
    model::{
        BackendId,
        drift::{DriftByMap, DriftKind},
    },
    ports::{BackendRow, RowMap},
    services::service_cache::backends::{Backends, RealisedBackend, SeenBackend},
};

/// Numbers with rows that are not their backends', and whether they are IPv4.
pub(super) type Suspects = BTreeSet<(BackendId, bool)>;

impl Backends {
    /// From now on rows are seen.
    pub(super) fn begin_sweep(&mut self) {
        self.left.clear();
        self.sweeping = true;
        for backend in self.by_place.values_mut() {
            let rests = backend.is_at_rest();
            backend.seen = if rests { SeenBackend::No } else { SeenBackend::Skipped };
        }
    }

    /// A row of the kernel; without a value it is one that nobody writes.
    pub(super) fn see(
        &mut self,
        id: BackendId,
        is_ipv4: bool,
        row: Option<BackendRow>,
        suspects: &mut Suspects,
    ) {
        let place = row.and_then(|row| Some((row, self.by_place.get_mut(&row.at)?)));
        match place.filter(|(_, backend)| backend.id == id) {
            Some((_, backend)) if backend.seen == SeenBackend::Skipped => {}
            Some((row, backend))
                if backend.kernel == RealisedBackend::Row(row.state) && row.zone == 0 =>
            {
                backend.seen = SeenBackend::Yes;
            }
            _ => drop(suspects.insert((id, is_ipv4))),
        }
    }

    /// A map was read to its end: what is missing or another is written again, and what is nobody's
    /// goes when nobody can mean it any more.
    pub(super) fn end_map(
        &mut self,
        map: RowMap,
        is_ipv4: bool,
        suspects: &mut Suspects,
        found: &mut DriftByMap,
    ) {
        let mut known = BTreeSet::new();
        let of_family = self.by_place.iter_mut().filter(|(at, _)| at.address.is_ipv4() == is_ipv4);
        for (at, backend) in of_family {
            let is_suspect = suspects.contains(&(backend.id, is_ipv4));
            if is_suspect {
                known.insert(backend.id);
            }
            let has_row = matches!(backend.kernel, RealisedBackend::Row(_));
            if backend.seen == SeenBackend::No && has_row && backend.is_at_rest() {
                found.note(
                    map.name(),
                    if is_suspect { DriftKind::Changed } else { DriftKind::Missing },
                    at,
                );
                backend.kernel = RealisedBackend::Unsure;
                Self::touch(&mut self.due, &self.quarantine, *at, backend);
            }
        }
        for (id, of_ipv4) in std::mem::take(suspects) {
            let is_known = known.contains(&id) || self.left.contains(&id);
            if of_ipv4 == is_ipv4 && !is_known && self.inherit_foreign(id, is_ipv4) {
                found.note(map.name(), DriftKind::Foreign, format_args!("backend {id}"));
            }
        }
    }
}
