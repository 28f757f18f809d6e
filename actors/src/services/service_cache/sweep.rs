//! The kernel's maps are compared with what was written, a page at a time.
//!
//! ```text
//!               more rows, or the next map       more tables
//!                   ┌──────┐                      ┌──────┐
//!                   │      ▼   all maps are read  │      ▼     all are compared
//!   it is time, ──► └─── Rows ──────────────────► └── Tables ──────────────────► what differs is due;
//!   or asked for          │                             │                        who asked is told once
//!                         └──────────────┬──────────────┘                        that is written
//!                                        ▼
//!               given up: the kernel refused, or did not answer
//! ```
//!
//! What is written meanwhile is judged the next time: what was read may be older. A frontend of which
//! a row is not as it is to be is written anew as a whole, in the order of any other change; rows of
//! nobody go when every source has said what it knows.

mod backends;
mod stage;
mod table;
mod wildcards;

use std::collections::BTreeMap;

pub(super) use self::stage::ServiceSweep;
use self::stage::{NextSweepStage, SweepStage, SweepStageOutcome};
use super::{Services, ServicesMsg, answers::ServicesAnswer, state::ServiceCacheState};
use crate::{
    host::{AskError, Cx, Reply},
    model::{
        BackendId, Frontend, L4Address, ServiceId,
        drift::{DriftKind, DriftReply, PAGE_PATIENCE},
    },
    mutants::{Mutant, mutated},
    ports::{
        BackendRow, KernelDone, KernelJob, KernelOp, KernelOutcome, MaglevTable, PageRows, RowMap,
        RowPage, UnusedNumbers,
    },
};

/// Tables of Maglev that are compared at a time: each is as long as many rows.
const TABLES_AT_ONCE: usize = 32;

impl Services {
    /// Sets the time of the next sweep.
    pub(super) fn sweep_later(&self, cx: &mut Cx<'_, Self>) {
        self.watch.sweep_later(cx, ServicesAnswer::Sweep);
    }

    /// Begins a sweep. Who asks amid one wants another one.
    pub(super) fn compare(&mut self, subscriber: Option<DriftReply>, cx: &mut Cx<'_, Self>) {
        if subscriber.is_none() {
            self.sweep_later(cx);
        }
        if self.sweep.is_some() {
            return self.subscribers.extend(subscriber);
        }
        let (index, subscribers) = (self.state.begin_sweep(), subscriber.into_iter().collect());
        self.sweep = Some(ServiceSweep { index, subscribers, ..ServiceSweep::default() });
        self.ask_stage(cx);
    }

    /// Asks the kernel for what a sweep looks at.
    fn ask_stage(&mut self, cx: &mut Cx<'_, Self>) {
        let Some(sweep) = &mut self.sweep else { return };
        match &mut sweep.stage {
            SweepStage::Rows { at, from } => {
                let (map, from) = (RowMap::SERVICES[*at], from.clone());
                let reply = cx.expect("kernel", PAGE_PATIENCE, map.name(), ServicesAnswer::Page);
                let read = KernelOp::ReadRows { map, from };
                self.kernel.submit(KernelJob::new(vec![read]), reply);
            }
            SweepStage::Tables { after, places } => {
                let Some((last, tables)) = self.state.tables_after(*after, places) else {
                    return self.end_stage(SweepStageOutcome::Whole, cx);
                };
                let why = "tables of Maglev to be compared";
                let reply = cx.expect("kernel", PAGE_PATIENCE, why, move |done| {
                    ServicesAnswer::Tables(last, done)
                });
                self.kernel.submit(KernelJob::new(vec![KernelOp::CompareMaglev(tables)]), reply);
            }
        }
    }

    fn end_stage(&mut self, end: SweepStageOutcome, cx: &mut Cx<'_, Self>) {
        let Some(sweep) = &mut self.sweep else { return };
        match std::mem::take(&mut sweep.stage).next(end) {
            NextSweepStage::Enter(stage) => {
                sweep.stage = stage;
                self.ask_stage(cx);
            }
            NextSweepStage::Finish => self.end_sweep(cx),
            NextSweepStage::GiveUp(error) => {
                tracing::warn!(error, "the maps of services were not compared");
                self.sweep = None;
            }
        }
    }

    pub(super) fn page(&mut self, done: Result<KernelDone, AskError>, cx: &mut Cx<'_, Self>) {
        let end = match KernelDone::rows(done) {
            Ok(page) => self.take_page(page),
            Err(error) => SweepStageOutcome::Refused(error),
        };
        self.end_stage(end, cx);
    }

    fn take_page(&mut self, RowPage { rows, strange, next }: RowPage) -> SweepStageOutcome {
        let is_writing = self.is_writing();
        let Some(sweep) = &mut self.sweep else { return SweepStageOutcome::Whole };
        let SweepStage::Rows { at, .. } = sweep.stage else { return SweepStageOutcome::Whole };
        let map = RowMap::SERVICES[at];
        if !strange.is_empty() {
            sweep.strange.entry(map).or_default().extend(strange);
        }
        match rows {
            // What is being written may be either.
            PageRows::Unused(_) if is_writing => {}
            rows => self.state.see(map, rows, sweep),
        }
        if let Some(from) = next {
            return SweepStageOutcome::More(from);
        }
        self.state.end_map(map, sweep);
        SweepStageOutcome::Whole
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
        let end = match differing {
            Ok(differing) => {
                self.take_tables(differing);
                SweepStageOutcome::Compared(last)
            }
            Err(error) => SweepStageOutcome::Refused(error),
        };
        self.end_stage(end, cx);
    }

    /// These tables are not as they are to be.
    fn take_tables(&mut self, differing: Vec<(ServiceId, bool)>) {
        let Some(sweep) = &mut self.sweep else { return };
        for (id, is_ipv4) in differing {
            let map = if is_ipv4 { RowMap::Maglev4 } else { RowMap::Maglev6 };
            let Some(frontend) = sweep.whose(id) else { continue };
            // One that is missing is known to be.
            let known = sweep.doubts.get(&frontend).is_some_and(|it| it.has_table);
            if !known && self.state.table.is_judged(&frontend) {
                sweep.doubt(map, frontend, DriftKind::Changed);
            }
        }
    }

    fn end_sweep(&mut self, cx: &mut Cx<'_, Self>) {
        let Some(mut sweep) = self.sweep.take() else { return };
        if mutated(Mutant::ServicesNotSwept) {
            return;
        }
        self.state.end_sweep(&mut sweep);
        for (map, keys) in sweep.strange {
            keys.iter()
                .for_each(|_| sweep.found.note(map.name(), DriftKind::Foreign, "a strange key"));
            let why = "strange rows to go";
            let reply = cx.expect("kernel", PAGE_PATIENCE, why, ServicesAnswer::Cleaned);
            let remove = KernelOp::DeleteStrange { map, keys };
            self.kernel.submit(KernelJob::new(vec![remove]), reply);
        }
        let found = sweep.found.into_all();
        self.watch.tell(found.clone());
        for subscriber in sweep.subscribers {
            let found = found.clone();
            self.askers.push(Reply::to(move |_| subscriber.send(found)));
        }
        if let Some(next) = self.subscribers.pop() {
            // What is due now is written before its answer is heard.
            let _ = cx.me().tell(ServicesMsg::Compare(next));
        }
    }
}

impl ServiceCacheState {
    /// From now on rows are seen; whose each number is, sorted.
    fn begin_sweep(&mut self) -> Vec<(ServiceId, Frontend)> {
        self.table.begin_sweep();
        self.backends.begin_sweep();
        self.table.index()
    }

    /// Some tables that are to be there, and which frontend's is the last of them.
    fn tables_after(
        &self,
        after: Option<Frontend>,
        places: &mut BTreeMap<BackendId, L4Address>,
    ) -> Option<(Frontend, Vec<MaglevTable>)> {
        let frontends = self.table.with_tables(after, TABLES_AT_ONCE);
        let last = frontends.last()?.0;
        if places.is_empty() {
            *places = self.backends.iter().map(|(at, id, _)| (id, at)).collect();
        }
        let place = |id: &BackendId| Some((*id, *places.get(id)?));
        let tables = frontends.into_iter().map(|(at, id, backends)| {
            (id, at.at.address.is_ipv4(), backends.iter().filter_map(place).collect())
        });
        Some((last, tables.collect()))
    }

    /// Rows of a map.
    fn see(&mut self, map: RowMap, rows: PageRows, sweep: &mut ServiceSweep) {
        match rows {
            // On a new node the row is empty: all numbers from 1 on are unused.
            PageRows::Unused(UnusedNumbers { backend, service })
                if (backend.max(1), service.max(1))
                    != (self.unused.backend, self.unused.service) =>
            {
                sweep.found.note(map.name(), DriftKind::Changed, "the numbers that none ever had");
                // Other than any that may be desired: it is written with the next batch.
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
    fn end_map(&mut self, map: RowMap, sweep: &mut ServiceSweep) {
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
    fn end_sweep(&mut self, sweep: &mut ServiceSweep) {
        for (frontend, traces) in std::mem::take(&mut sweep.doubts) {
            self.table.doubt(frontend, traces);
        }
        let strangers = std::mem::take(&mut sweep.strangers);
        let orphans = self.table.orphans(strangers, &mut sweep.found);
        self.findings.orphans.extend(orphans);
    }
}
