//! The kernel's maps are compared with what was written, a page at a time.
//!
//! What is written meanwhile is judged the next time: what was read may be older. A frontend of which
//! a row is not as it is to be is written anew as a whole, in the order of any other change; rows of
//! nobody go when every source has said what it knows.

mod backends;
mod table;
mod wildcards;

use std::collections::BTreeMap;

pub(super) use self::wildcards::Seen as SeenWildcards;
use self::{backends::Suspects, table::Strangers};
use super::{Services, ServicesMsg, actor::Kept, answers::ServicesAnswer, shape::Traces};
use crate::{
    host::{AskError, Cx, Reply},
    model::{
        BackendId, Frontend, L4Address, ServiceId,
        drift::{Drift, Found, Kind, PAGE_PATIENCE},
    },
    mutants::{Mutant, mutated},
    ports::{
        BackendRow, KernelDone, KernelJob, KernelOp, KernelOutcome, MaglevTable, PageRows, RowMap,
        RowPage, RowPlace, UnusedNumbers,
    },
};

/// Tables of Maglev that are compared at a time: each is as long as many rows.
const TABLES_AT_ONCE: usize = 32;

/// Who wants to hear what was found.
pub(super) type Hearer = Reply<Vec<Drift>>;

/// A sweep under way.
#[derive(Default)]
pub(super) struct Sweep {
    /// Which of [`RowMap::SERVICES`] is read.
    at: usize,
    /// Whose each number is, sorted.
    index: Vec<(ServiceId, Frontend)>,
    found: Found,
    /// Frontends of which a row is not as it is to be, with what else may be there.
    doubts: BTreeMap<Frontend, Traces>,
    strangers: Strangers,
    suspects: Suspects,
    /// Keys that nobody writes.
    strange: BTreeMap<RowMap, Vec<Box<[u8]>>>,
    /// Where backends are, while tables of Maglev are compared.
    places: BTreeMap<BackendId, L4Address>,
    hearers: Vec<Hearer>,
}

impl Sweep {
    /// Whose a number is.
    fn whose(&self, id: ServiceId) -> Option<Frontend> {
        let at = self.index.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        Some(self.index[at].1)
    }

    /// A frontend has another row than it is to have, or none.
    fn doubt(&mut self, map: RowMap, frontend: Frontend, kind: Kind) -> &mut Traces {
        self.found.note(map.name(), kind, frontend);
        self.doubts.entry(frontend).or_default()
    }
}

/// What is compared next.
enum Next {
    Page(RowMap, Option<RowPlace>),
    Tables(Option<Frontend>),
}

impl Services {
    /// Sets the time of the next sweep.
    pub(super) fn sweep_later(&self, cx: &mut Cx<'_, Self>) {
        self.watch.sweep_later(cx, ServicesAnswer::Sweep);
    }

    /// Begins a sweep. Who asks amid one wants another one.
    pub(super) fn compare(&mut self, hearer: Option<Hearer>, cx: &mut Cx<'_, Self>) {
        if hearer.is_none() {
            self.sweep_later(cx);
        }
        if self.sweep.is_some() {
            return self.hearers.extend(hearer);
        }
        let (index, hearers) = (self.kept.begin_sweep(), hearer.into_iter().collect());
        self.sweep = Some(Sweep { index, hearers, ..Sweep::default() });
        self.go_to(Next::Page(RowMap::SERVICES[0], None), cx);
    }

    fn go_to(&mut self, next: Next, cx: &mut Cx<'_, Self>) {
        match next {
            Next::Page(map, from) => {
                let reply = cx.expect("kernel", PAGE_PATIENCE, map.name(), ServicesAnswer::Page);
                let read = KernelOp::ReadRows { map, from };
                self.kernel.submit(KernelJob::new(vec![read]), reply);
            }
            Next::Tables(after) => {
                let tables = self.tables_after(after);
                let Some((last, tables)) = tables else { return self.end_sweep(cx) };
                let why = "tables of Maglev to be compared";
                let reply = cx.expect("kernel", PAGE_PATIENCE, why, move |done| {
                    ServicesAnswer::Tables(last, done)
                });
                self.kernel.submit(KernelJob::new(vec![KernelOp::CompareMaglev(tables)]), reply);
            }
        }
    }

    /// Some tables that are to be there, and which frontend's is the last of them.
    fn tables_after(&mut self, after: Option<Frontend>) -> Option<(Frontend, Vec<MaglevTable>)> {
        let sweep = self.sweep.as_mut()?;
        let kept = &*self.kept;
        let frontends = kept.table.with_tables(after, TABLES_AT_ONCE);
        let last = frontends.last()?.0;
        if sweep.places.is_empty() {
            sweep.places = kept.backends.iter().map(|(at, id, _)| (id, at)).collect();
        }
        let place = |id: &BackendId| Some((*id, *sweep.places.get(id)?));
        let tables = frontends.into_iter().map(|(at, id, backends)| {
            (id, at.at.address.is_ipv4(), backends.iter().filter_map(place).collect())
        });
        Some((last, tables.collect()))
    }

    pub(super) fn page(&mut self, done: Result<KernelDone, AskError>, cx: &mut Cx<'_, Self>) {
        match KernelDone::rows(done) {
            Ok(page) => self.take_page(page, cx),
            Err(error) => self.give_up(&error),
        }
    }

    fn take_page(&mut self, RowPage { rows, strange, next }: RowPage, cx: &mut Cx<'_, Self>) {
        let Some(sweep) = &mut self.sweep else { return };
        let Some(&map) = RowMap::SERVICES.get(sweep.at) else { return };
        if !strange.is_empty() {
            sweep.strange.entry(map).or_default().extend(strange);
        }
        match rows {
            // What is being written may be either.
            PageRows::Unused(_) if self.writing.is_some() => {}
            rows => self.kept.see(map, rows, sweep),
        }
        if next.is_some() {
            return self.go_to(Next::Page(map, next), cx);
        }
        self.kept.end_map(map, sweep);
        sweep.at += 1;
        let next = RowMap::SERVICES.get(sweep.at).map(|map| Next::Page(*map, None));
        self.go_to(next.unwrap_or(Next::Tables(None)), cx);
    }

    pub(super) fn tables(
        &mut self,
        last: Frontend,
        done: Result<KernelDone, AskError>,
        cx: &mut Cx<'_, Self>,
    ) {
        let differing = KernelDone::of_one(done, |outcome| match outcome {
            KernelOutcome::DifferingTables(differing) => Some(differing),
            _ => None,
        });
        match differing {
            Ok(differing) => {
                let Some(sweep) = &mut self.sweep else { return };
                for (id, is_ipv4) in differing {
                    let map = if is_ipv4 { RowMap::Maglev4 } else { RowMap::Maglev6 };
                    let Some(frontend) = sweep.whose(id) else { continue };
                    // One that is missing is known to be.
                    let known = sweep.doubts.get(&frontend).is_some_and(|it| it.has_table);
                    if !known && self.kept.table.is_judged(&frontend) {
                        sweep.doubt(map, frontend, Kind::Changed);
                    }
                }
                self.go_to(Next::Tables(Some(last)), cx);
            }
            Err(error) => self.give_up(&error),
        }
    }

    fn give_up(&mut self, error: &str) {
        tracing::warn!(error, "the maps of services were not compared");
        self.sweep = None;
    }

    fn end_sweep(&mut self, cx: &mut Cx<'_, Self>) {
        let Some(mut sweep) = self.sweep.take() else { return };
        if mutated(Mutant::ServicesNotSwept) {
            return;
        }
        self.kept.end_sweep(&mut sweep);
        for (map, keys) in sweep.strange {
            keys.iter().for_each(|_| sweep.found.note(map.name(), Kind::Foreign, "a strange key"));
            let why = "strange rows to go";
            let reply = cx.expect("kernel", PAGE_PATIENCE, why, ServicesAnswer::Cleaned);
            let remove = KernelOp::DeleteStrange { map, keys };
            self.kernel.submit(KernelJob::new(vec![remove]), reply);
        }
        let found = sweep.found.into_all();
        self.watch.tell(found.clone());
        for hearer in sweep.hearers {
            let found = found.clone();
            self.asked.when_written(Reply::to(move |_| hearer.send(found)));
        }
        if let Some(next) = self.hearers.pop() {
            // What is due now is written before its answer is heard.
            let _ = cx.me().tell(ServicesMsg::Compare(next));
        }
    }
}

impl Kept {
    /// From now on rows are seen; whose each number is, sorted.
    fn begin_sweep(&mut self) -> Vec<(ServiceId, Frontend)> {
        self.table.begin_sweep();
        self.backends.begin_sweep();
        self.table.index()
    }

    /// Rows of a map.
    fn see(&mut self, map: RowMap, rows: PageRows, sweep: &mut Sweep) {
        match rows {
            // On a new node the row is empty: all numbers from 1 on are unused.
            PageRows::Unused(UnusedNumbers { backend, service })
                if (backend.max(1), service.max(1))
                    != (self.unused.backend, self.unused.service) =>
            {
                sweep.found.note(map.name(), Kind::Changed, "the numbers that none ever had");
                // Other than any that may be wanted: it is written with the next batch.
                self.unused = UnusedNumbers::default();
            }
            PageRows::Backends(rows) => {
                let is_ipv4 = map.is_ipv4().unwrap_or_default();
                for (id, row) in rows {
                    self.backends.see(id, is_ipv4, row, &mut sweep.suspects);
                }
            }
            PageRows::Members(rows) => {
                // One that says another place is as good as none.
                let is_there = |id, row: &BackendRow| self.backends.place(id) == Some(row.at);
                let rows = rows.into_iter().map(|((service, id), row)| {
                    ((service, id), row.filter(|row| is_there(id, row)))
                });
                self.table.see(map, PageRows::Members(rows.collect()), sweep);
            }
            rows => self.table.see(map, rows, sweep),
        }
    }

    /// A map was read to its end.
    fn end_map(&mut self, map: RowMap, sweep: &mut Sweep) {
        match map {
            RowMap::Unused => {}
            RowMap::Backends4 | RowMap::Backends6 => {
                let is_ipv4 = map.is_ipv4().unwrap_or_default();
                self.backends.end_map(map, is_ipv4, &mut sweep.suspects, &mut sweep.found);
            }
            map => self.table.end_map(map, sweep),
        }
    }

    /// What is not as it is to be is due.
    fn end_sweep(&mut self, sweep: &mut Sweep) {
        for (frontend, traces) in std::mem::take(&mut sweep.doubts) {
            self.table.doubt(frontend, traces);
        }
        let strangers = std::mem::take(&mut sweep.strangers);
        let orphans = self.table.orphans(strangers, &mut sweep.found);
        self.findings.orphans.extend(orphans);
    }
}
