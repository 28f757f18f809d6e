//! The node's own rows are compared with what was written: the host's addresses among the local
//! ones, and what the programs know of the node.

use std::{collections::BTreeMap, net::IpAddr};

use super::{
    actor::{Node, NodeSweep},
    answers::NodeAnswer,
};
use crate::{
    host::{AskError, Cx},
    model::drift::{DriftByMap, DriftKind, DriftReply, PAGE_PATIENCE},
    mutants::{Mutant, mutated},
    ports::{KernelDone, KernelJob, KernelOp, LxcRow, PageRows, RowMap, RowPage, RowPlace},
};

impl NodeSweep {
    /// Rows are written.
    pub(super) fn spoil(&mut self) {
        self.spoilt = true;
    }
}

impl Node {
    /// Begins a sweep; who asks amid one hears of that one.
    pub(super) fn compare(&mut self, subscriber: Option<DriftReply>, cx: &mut Cx<'_, Self>) {
        if subscriber.is_none() {
            self.watch.sweep_later(cx, NodeAnswer::Sweep);
        }
        if let Some(sweep) = &mut self.sweep {
            return sweep.subscribers.extend(subscriber);
        }
        // A look that only reads changes no rows.
        let spoilt = !self.state.under_way.is_empty();
        let subscribers = subscriber.into_iter().collect();
        self.sweep = Some(NodeSweep { spoilt, subscribers, ..NodeSweep::default() });
        self.read_page(RowMap::Lxc, None, cx);
    }

    fn read_page(&self, map: RowMap, from: Option<RowPlace>, cx: &mut Cx<'_, Self>) {
        let reply = cx.expect("kernel", PAGE_PATIENCE, map.name(), NodeAnswer::Page);
        self.kernel.submit(KernelJob::new(vec![KernelOp::ReadRows { map, from }]), reply);
    }

    pub(super) fn page(&mut self, done: Result<KernelDone, AskError>, cx: &mut Cx<'_, Self>) {
        let Some(sweep) = &mut self.sweep else { return };
        match KernelDone::rows(done) {
            Ok(RowPage { rows: PageRows::Lxc(rows), strange, next }) => {
                let rows = rows.into_iter().filter_map(|(at, row)| Some((at, row?)));
                sweep.rows.extend(rows.filter(|(_, row)| row.endpoint == 0));
                sweep.strange.extend(strange);
                let map = if next.is_some() { RowMap::Lxc } else { RowMap::Node };
                self.read_page(map, next, cx);
            }
            Ok(RowPage { rows: PageRows::Node(is_as_written), .. }) => {
                self.end_sweep(is_as_written, cx);
            }
            other => {
                tracing::warn!(?other, "the node's own rows were not compared");
                self.sweep = None;
            }
        }
    }

    fn end_sweep(&mut self, is_as_written: bool, cx: &mut Cx<'_, Self>) {
        let Some(mut sweep) = self.sweep.take() else { return };
        if mutated(Mutant::NodeNotSwept) {
            return;
        }
        let mut ops = Vec::new();
        if !is_as_written {
            sweep.found.note(RowMap::Node.name(), DriftKind::Changed, "the node");
            ops.push(KernelOp::PutNode);
        }
        if !sweep.strange.is_empty() {
            let what = "a key that is no address";
            sweep
                .strange
                .iter()
                .for_each(|_| sweep.found.note(RowMap::Lxc.name(), DriftKind::Foreign, what));
            ops.push(KernelOp::DeleteStrange { map: RowMap::Lxc, keys: sweep.strange });
        }
        if !ops.is_empty() {
            let reply =
                cx.expect("kernel", PAGE_PATIENCE, "the node's own rows", NodeAnswer::Mended);
            self.kernel.submit(KernelJob::new(ops), reply);
        }
        if !sweep.spoilt && self.take_in(&sweep.rows, &mut sweep.found) {
            self.look(cx);
        }
        let found = sweep.found.into_all();
        self.watch.tell(found.clone());
        sweep.subscribers.into_iter().for_each(|subscriber| subscriber.send(found.clone()));
    }

    /// What the kernel has of the host's addresses; whether that is not what was written.
    fn take_in(&mut self, seen: &BTreeMap<IpAddr, LxcRow>, found: &mut DriftByMap) -> bool {
        let state = &mut *self.state;
        if state.rows.values().any(Option::is_none) {
            // Nobody knows what became of a write: the next look finds out.
            return false;
        }
        let written: BTreeMap<IpAddr, LxcRow> =
            state.rows.iter().filter_map(|(at, row)| Some((*at, (*row)?))).collect();
        if *seen == written {
            return false;
        }
        found.compare_all(RowMap::Lxc.name(), &written, seen, ToString::to_string);
        state.rows = seen.iter().map(|(at, row)| (*at, Some(*row))).collect();
        true
    }
}
