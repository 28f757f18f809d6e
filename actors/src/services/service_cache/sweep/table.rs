//! Rows of frontends.

use std::{
    collections::BTreeSet,
    ops::Bound::{Excluded, Unbounded},
};

use ipnet::IpNet;

use super::stage::{ForeignServiceRows, ServiceSweep};
use crate::{
    model::{
        BackendId, Frontend, ServiceId,
        drift::{DriftByMap, DriftKind},
    },
    ports::{PageRows, RowMap, ServiceKeys},
    services::service_cache::{
        shape::{RealisedShape, Shape, Traces},
        table::{FrontendEntry, FrontendTable, SKIPPED},
        wildcards,
    },
};

/// Whether a frontend may have rows in a map.
fn is_of(map: RowMap, frontend: &Frontend) -> bool {
    map.is_ipv4().is_none_or(|is_ipv4| is_ipv4 == frontend.at.address.is_ipv4())
}

/// How many rows a frontend is to have in a map.
fn expected(map: RowMap, shape: &Shape) -> usize {
    match map {
        RowMap::Slots4 | RowMap::Slots6 => shape.backends.len() + 1,
        RowMap::Members4 | RowMap::Members6 => shape.members_len(),
        RowMap::ReverseNat4 | RowMap::ReverseNat6 => 1,
        RowMap::AffinityMatches => shape.stays(),
        RowMap::SourceRanges4 | RowMap::SourceRanges6 => match &*shape.ranges {
            [] => 0,
            ranges => ranges.iter().map(IpNet::trunc).collect::<BTreeSet<_>>().len(),
        },
        RowMap::Maglev4 | RowMap::Maglev6 => shape.has_table().into(),
        _ => 0,
    }
}

impl FrontendTable {
    /// Whose each number is, sorted.
    pub(super) fn index(&self) -> Vec<(ServiceId, Frontend)> {
        let mut index: Vec<_> = self.entries.iter().map(|(at, entry)| (entry.id, *at)).collect();
        index.sort_unstable();
        index
    }

    /// From now on rows are seen.
    pub(super) fn begin_sweep(&mut self) {
        self.left.clear();
        self.sweeping = true;
        self.wildcards.begin_sweep();
        self.begin_map();
    }

    /// No row of the next map has been seen. What is being written is not judged.
    fn begin_map(&mut self) {
        for entry in self.entries.values_mut() {
            entry.seen = if entry.is_realised() { 0 } else { SKIPPED };
        }
    }

    /// Whether what is seen of a frontend says something.
    pub(super) fn is_judged(&self, frontend: &Frontend) -> bool {
        self.entries.get(frontend).is_some_and(|entry| entry.seen != SKIPPED)
    }

    /// Rows of a map.
    pub(super) fn see(&mut self, map: RowMap, rows: PageRows, sweep: &mut ServiceSweep) {
        match rows {
            PageRows::Slots(rows) => {
                for (key @ (frontend, slot), row) in rows {
                    if wildcards::is_one(&key) {
                        self.wildcards.see(frontend.at.address, row);
                        continue;
                    }
                    let Some(entry) = self.entries.get_mut(&frontend) else {
                        sweep.strangers.slots.insert(key);
                        continue;
                    };
                    let Some(shape) = entry.judged() else { continue };
                    let desired = match slot {
                        0 => Some(shape.first(entry.id)),
                        slot => shape.row(entry.id, slot),
                    };
                    entry.seen += u32::from(desired.is_some());
                    if desired.is_none() || desired != row {
                        let kind =
                            if desired.is_some() { DriftKind::Changed } else { DriftKind::Foreign };
                        let traces = sweep.doubt(map, frontend, kind);
                        traces.slots = traces.slots.max(slot);
                        traces.rows = traces.rows.saturating_add(1);
                    }
                }
            }
            PageRows::Members(rows) => {
                let is_ipv4 = map.is_ipv4().unwrap_or_default();
                for (key @ (id, backend), row) in rows {
                    let frontend = sweep.whose(id).filter(|frontend| is_of(map, frontend));
                    let Some((frontend, entry)) = self.of(frontend) else {
                        sweep.strangers.members.insert((key, is_ipv4));
                        continue;
                    };
                    let Some(shape) = entry.judged() else { continue };
                    let desired = shape.member(backend);
                    entry.seen += u32::from(desired.is_some());
                    if desired.is_none() || desired != row.map(|row| row.state) {
                        let kind =
                            if desired.is_some() { DriftKind::Changed } else { DriftKind::Foreign };
                        sweep.doubt(map, frontend, kind).members.insert(backend);
                    }
                }
            }
            PageRows::ReverseNat(rows) => {
                let is_ipv4 = map.is_ipv4().unwrap_or_default();
                for (id, at) in rows {
                    let frontend = sweep.whose(id).filter(|frontend| is_of(map, frontend));
                    let Some((frontend, entry)) = self.of(frontend) else {
                        sweep.strangers.reverse.insert((id, is_ipv4));
                        continue;
                    };
                    if entry.judged().is_none() {
                        continue;
                    }
                    entry.seen += 1;
                    if at != Some(frontend.at.socket()) {
                        sweep.doubt(map, frontend, DriftKind::Changed);
                    }
                }
            }
            PageRows::AffinityMatches(rows) => {
                for (backend, id) in rows {
                    let Some((frontend, entry)) = self.of(sweep.whose(id)) else {
                        sweep.strangers.matches.insert((backend, id));
                        continue;
                    };
                    let Some(shape) = entry.judged() else { continue };
                    if shape.stays() > 0 && shape.backends.contains(&backend) {
                        entry.seen += 1;
                    } else {
                        sweep.doubt(map, frontend, DriftKind::Foreign).matches.insert(backend);
                    }
                }
            }
            PageRows::SourceRanges(rows) => {
                for (id, range) in rows {
                    let frontend = sweep.whose(id).filter(|frontend| is_of(map, frontend));
                    let Some((frontend, entry)) = self.of(frontend) else {
                        sweep.strangers.ranges.insert((id, range));
                        continue;
                    };
                    let Some(shape) = entry.judged() else { continue };
                    if shape.ranges.iter().any(|it| it.trunc() == range.trunc()) {
                        entry.seen += 1;
                    } else {
                        sweep.doubt(map, frontend, DriftKind::Foreign).ranges.insert(range);
                    }
                }
            }
            PageRows::Maglev(rows) => {
                let is_ipv4 = map.is_ipv4().unwrap_or_default();
                for id in rows {
                    let frontend = sweep.whose(id).filter(|frontend| is_of(map, frontend));
                    let Some((frontend, entry)) = self.of(frontend) else {
                        sweep.strangers.tables.insert((id, is_ipv4));
                        continue;
                    };
                    let Some(shape) = entry.judged() else { continue };
                    if shape.has_table() {
                        entry.seen += 1;
                    } else {
                        sweep.doubt(map, frontend, DriftKind::Foreign).has_table = true;
                    }
                }
            }
            _ => {}
        }
    }

    fn of(&mut self, frontend: Option<Frontend>) -> Option<(Frontend, &mut FrontendEntry)> {
        let frontend = frontend?;
        Some((frontend, self.entries.get_mut(&frontend)?))
    }

    /// A map was read to its end: rows that were not seen are missing.
    pub(super) fn end_map(&mut self, map: RowMap, sweep: &mut ServiceSweep) {
        if matches!(map, RowMap::Slots4 | RowMap::Slots6) {
            let is_ipv4 = map == RowMap::Slots4;
            self.wildcards.end_map(map, is_ipv4, &mut sweep.found);
        }
        for (frontend, entry) in self.entries.iter().filter(|(frontend, _)| is_of(map, frontend)) {
            let Some(shape) = entry.judged() else { continue };
            let lacks = expected(map, shape).saturating_sub(entry.seen as usize);
            for _ in 0..lacks {
                let traces = sweep.doubt(map, *frontend, DriftKind::Missing);
                traces.has_table |= shape.has_table();
            }
        }
        self.begin_map();
    }

    /// Frontends behind one that have a table of Maglev, and whom it leads to.
    pub(super) fn with_tables(
        &self,
        after: Option<Frontend>,
        most: usize,
    ) -> Vec<(Frontend, ServiceId, &[BackendId])> {
        let from = after.map_or(Unbounded, Excluded);
        let all = self.entries.range((from, Unbounded));
        let tables = all.filter_map(|(frontend, entry)| {
            let shape = entry.judged().filter(|shape| shape.has_table())?;
            Some((*frontend, entry.id, &shape.backends[..usize::from(shape.used)]))
        });
        tables.take(most).collect()
    }

    /// Not all rows of a frontend are as they are to be: all of it is written anew, unless that is
    /// happening.
    pub(super) fn doubt(&mut self, frontend: Frontend, mut traces: Traces) {
        let Some(entry) = self.entries.get_mut(&frontend) else { return };
        let Some(shape) = entry.judged() else { return };
        let rows = traces.rows;
        traces.add(shape);
        traces.rows = traces.rows.saturating_add(rows);
        self.becomes(frontend, RealisedShape::Unsure(Box::new(traces)));
    }

    /// Rows that are nobody's still.
    pub(super) fn orphans(
        &mut self,
        strangers: ForeignServiceRows,
        found: &mut DriftByMap,
    ) -> Vec<ServiceKeys> {
        let left = std::mem::take(&mut self.left);
        self.sweeping = false;
        self.wildcards.end_sweep();
        let ForeignServiceRows { slots, members, reverse, matches, ranges, tables } = strangers;
        let went = |id: &ServiceId| left.iter().any(|(_, it)| it == id);
        let mut keys = Vec::new();
        let slots = slots.into_iter().filter(|(at, _)| !left.iter().any(|(it, _)| it == at));
        keys.push(ServiceKeys::Slots(slots.collect()));
        let members = members.into_iter().filter(|((id, _), _)| !went(id));
        keys.push(ServiceKeys::Members(members.collect()));
        let reverse = reverse.into_iter().filter(|(id, _)| !went(id));
        keys.push(ServiceKeys::ReverseNat(reverse.collect()));
        let matches = matches.into_iter().filter(|(_, id)| !went(id));
        keys.push(ServiceKeys::AffinityMatches(matches.collect()));
        keys.push(ServiceKeys::SourceRanges(
            ranges.into_iter().filter(|(id, _)| !went(id)).collect(),
        ));
        keys.push(ServiceKeys::Maglev(tables.into_iter().filter(|(id, _)| !went(id)).collect()));
        let keys: Vec<_> = self.nobodys(keys);
        keys.iter().for_each(|keys| note(keys, found));
        keys
    }

    /// Those of the rows that are no frontend's by now.
    pub(in crate::services::service_cache) fn nobodys(
        &self,
        all: Vec<ServiceKeys>,
    ) -> Vec<ServiceKeys> {
        if all.iter().all(ServiceKeys::is_empty) {
            return Vec::new();
        }
        // A number stands for one frontend, of one family.
        let had: BTreeSet<(ServiceId, bool)> =
            self.entries.iter().map(|(at, entry)| (entry.id, at.at.address.is_ipv4())).collect();
        let is_free = |id: &ServiceId| [false, true].iter().all(|it| !had.contains(&(*id, *it)));
        let mut all = all;
        for keys in &mut all {
            match keys {
                ServiceKeys::Slots(keys) => keys.retain(|(at, _)| !self.entries.contains_key(at)),
                ServiceKeys::Members(keys) => {
                    keys.retain(|((id, _), is_ipv4)| !had.contains(&(*id, *is_ipv4)));
                }
                ServiceKeys::ReverseNat(keys) | ServiceKeys::Maglev(keys) => {
                    keys.retain(|key| !had.contains(key));
                }
                ServiceKeys::AffinityMatches(keys) => keys.retain(|(_, id)| is_free(id)),
                ServiceKeys::SourceRanges(keys) => {
                    keys.retain(|(id, range)| !had.contains(&(*id, range.addr().is_ipv4())));
                }
                ServiceKeys::Backends(_) => {}
            }
        }
        all.retain(|keys| !keys.is_empty());
        all
    }
}

/// Counts rows of nobody.
fn note(keys: &ServiceKeys, found: &mut DriftByMap) {
    let of = |four, six, is_ipv4: bool| if is_ipv4 { four } else { six };
    let mut foreign = |map: RowMap, what: String| found.note(map.name(), DriftKind::Foreign, what);
    match keys {
        ServiceKeys::Slots(keys) => {
            for (at, slot) in keys {
                let map = of(RowMap::Slots4, RowMap::Slots6, at.at.address.is_ipv4());
                foreign(map, format!("{at} slot {slot}"));
            }
        }
        ServiceKeys::Members(keys) => keys.iter().for_each(|((id, backend), is_ipv4)| {
            let map = of(RowMap::Members4, RowMap::Members6, *is_ipv4);
            foreign(map, format!("backend {backend} of service {id}"));
        }),
        ServiceKeys::ReverseNat(keys) => keys.iter().for_each(|(id, is_ipv4)| {
            let map = of(RowMap::ReverseNat4, RowMap::ReverseNat6, *is_ipv4);
            foreign(map, format!("service {id}"));
        }),
        ServiceKeys::Maglev(keys) => keys.iter().for_each(|(id, is_ipv4)| {
            foreign(of(RowMap::Maglev4, RowMap::Maglev6, *is_ipv4), format!("service {id}"));
        }),
        ServiceKeys::AffinityMatches(keys) => keys.iter().for_each(|(backend, id)| {
            foreign(RowMap::AffinityMatches, format!("backend {backend} of service {id}"));
        }),
        ServiceKeys::SourceRanges(keys) => keys.iter().for_each(|(id, range)| {
            let is_ipv4 = range.addr().is_ipv4();
            let map = of(RowMap::SourceRanges4, RowMap::SourceRanges6, is_ipv4);
            foreign(map, format!("{range} of service {id}"));
        }),
        ServiceKeys::Backends(_) => {}
    }
}
