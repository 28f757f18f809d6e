//! The kernel's rows are compared with what was written, a page at a time.
//!
//! A row that is written meanwhile is judged the next time: what was read may be older.

use std::collections::BTreeMap;

use ipnet::IpNet;

use super::{
    actor::{Ipcache, IpcacheSweep},
    answers::IpcacheAnswer,
    table::IpcacheTable,
};
use crate::{
    host::{AskError, Cx, Reply},
    model::drift::{DriftByMap, DriftKind, DriftReply, PAGE_PATIENCE},
    mutants::{Mutant, mutated},
    ports::{IpcacheRow, KernelDone, KernelJob, KernelOp, PageRows, RowMap, RowPage, RowPlace},
};

impl Ipcache {
    /// Begins a sweep. Who asks amid one wants another one.
    pub(super) fn compare(&mut self, subscriber: Option<DriftReply>, cx: &mut Cx<'_, Self>) {
        if subscriber.is_none() {
            self.watch.sweep_later(cx, IpcacheAnswer::Sweep);
        }
        if self.sweep.is_some() {
            return self.subscribers.extend(subscriber);
        }
        self.table.begin_sweep();
        let subscribers = subscriber.into_iter().collect();
        self.sweep = Some(IpcacheSweep { subscribers, ..IpcacheSweep::default() });
        self.read_page(None, cx);
    }

    fn read_page(&self, from: Option<RowPlace>, cx: &mut Cx<'_, Self>) {
        let reply = cx.expect("kernel", PAGE_PATIENCE, "rows to be compared", IpcacheAnswer::Page);
        let read = KernelOp::ReadRows { map: RowMap::Ipcache, from };
        self.kernel.submit(KernelJob::new(vec![read]), reply);
    }

    pub(super) fn page(&mut self, done: Result<KernelDone, AskError>, cx: &mut Cx<'_, Self>) {
        match (KernelDone::rows(done), &mut self.sweep) {
            (Ok(RowPage { rows: PageRows::Ipcache(rows), strange, next }), Some(sweep)) => {
                let table = &mut *self.table;
                sweep.strange.extend(strange);
                for (prefix, row) in rows {
                    table.see(prefix, row, &mut sweep.found, &mut sweep.strangers);
                }
                match next {
                    Some(next) => self.read_page(Some(next), cx),
                    None => self.end_sweep(cx),
                }
            }
            (page, _) => {
                if let Err(error) = page {
                    tracing::warn!(error, "the ipcache was not compared");
                }
                self.sweep = None;
            }
        }
    }

    fn end_sweep(&mut self, cx: &mut Cx<'_, Self>) {
        let Some(mut sweep) = self.sweep.take() else { return };
        if !mutated(Mutant::IpcacheNotSwept) {
            self.table.end_sweep(sweep.strangers, &mut sweep.found);
        }
        for _ in &sweep.strange {
            sweep.found.note(RowMap::Ipcache.name(), DriftKind::Foreign, "a key that is no prefix");
        }
        if !sweep.strange.is_empty() {
            let remove = KernelOp::DeleteStrange { map: RowMap::Ipcache, keys: sweep.strange };
            let reply =
                cx.expect("kernel", PAGE_PATIENCE, "strange rows to go", IpcacheAnswer::Cleaned);
            self.kernel.submit(KernelJob::new(vec![remove]), reply);
        }
        let found = sweep.found.into_all();
        self.watch.tell(found.clone());
        for subscriber in sweep.subscribers {
            let found = found.clone();
            self.ask_when_written(Reply::to(move |_| subscriber.send(found)));
        }
        if let Some(next) = self.subscribers.pop() {
            let others = std::mem::take(&mut self.subscribers);
            self.compare(Some(next), cx);
            if let Some(sweep) = &mut self.sweep {
                sweep.subscribers.extend(others);
            }
        }
    }
}

impl IpcacheTable {
    /// From now on rows are seen. What is being written is not judged.
    fn begin_sweep(&mut self) {
        self.round = self.round % u8::MAX + 1;
        self.left.clear();
        self.sweeping = true;
        let written: Vec<IpNet> = self.under_way.prefixes().collect();
        written.iter().for_each(|prefix| self.spoil(prefix));
    }

    /// A row changes: what the sweep under way saw of it, or will see, says nothing.
    pub(super) fn spoil(&mut self, prefix: &IpNet) {
        let round = self.round;
        if let Some(line) = self.lines.get_mut(prefix) {
            line.seen = round;
        }
    }

    /// A row of the kernel; without a value it is one that nobody writes.
    fn see(
        &mut self,
        prefix: IpNet,
        row: Option<IpcacheRow>,
        found: &mut DriftByMap,
        strangers: &mut BTreeMap<IpNet, IpcacheRow>,
    ) {
        let round = self.round;
        let Some(line) = self.lines.get_mut(&prefix) else {
            strangers.insert(prefix, row.unwrap_or_default());
            return;
        };
        let known = std::mem::replace(&mut line.seen, round);
        if known == round
            || line.due
            || self.is_put_off(&prefix)
            || mutated(Mutant::IpcacheNotSwept)
        {
            return;
        }
        let Some(line) = self.lines.get_mut(&prefix) else { return };
        if row.is_none() || line.realised != row {
            let kind =
                if line.realised.is_some() { DriftKind::Changed } else { DriftKind::Foreign };
            found.note(RowMap::Ipcache.name(), kind, prefix);
            self.doubt(prefix, Some(row.unwrap_or_default()));
        }
    }

    /// All rows have been seen: those that were not are missing, and what nobody named goes.
    fn end_sweep(&mut self, strangers: BTreeMap<IpNet, IpcacheRow>, found: &mut DriftByMap) {
        self.sweeping = false;
        let round = self.round;
        let unseen = self.lines.iter().filter(|(_, line)| line.seen != round);
        let unseen = unseen.filter(|(_, line)| line.realised.is_some() && !line.due);
        let unseen: Vec<IpNet> = unseen.map(|(prefix, _)| *prefix).collect();
        for prefix in unseen {
            if self.is_put_off(&prefix) {
                continue;
            }
            found.note(RowMap::Ipcache.name(), DriftKind::Missing, prefix);
            self.doubt(prefix, None);
        }
        let left = std::mem::take(&mut self.left);
        for (prefix, row) in strangers {
            if !self.lines.contains_key(&prefix) && !left.contains(&prefix) {
                found.note(RowMap::Ipcache.name(), DriftKind::Foreign, prefix);
                self.take_in(prefix, row);
            }
        }
    }
}
