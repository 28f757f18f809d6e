//! Steps of one batch, in the order in which no packet meets a frontend that is half written.

use super::{backends::Backends, shape::FrontendRows, table::FrontendTable};
use crate::{
    model::{BackendId, Frontend, ServiceId},
    mutants::{Mutant, mutated},
    ports::{BackendRow, KernelOp, ServiceKeys, ServiceRows, UnusedNumbers},
};

/// How many frontends a batch writes, at most.
const FRONTENDS_MAX: usize = 4096;

/// A batch that the kernel is given.
#[derive(Debug)]
pub(super) struct ServiceBatch {
    /// How many steps it has.
    steps: usize,
    /// How many of them have been done once backends are put.
    backends_put_at: usize,
    pub(super) unused: UnusedNumbers,
    /// Numbers of services that connections are made to forget.
    reused: Vec<ServiceId>,
    /// Whether it is all that was due, so that it removes backends and what is nobody's.
    is_all: bool,
    /// Whether backends go, or serve some service no more.
    has_gone: bool,
    /// Whether it removes what is nobody's.
    removes_orphans: bool,
}

/// Takes the next batch and its steps; `None` if there is nothing to write. What is nobody's, `orphans`, goes with
/// it.
pub(super) fn next(
    table: &mut FrontendTable,
    backends: &mut Backends,
    (unused_before, room): (UnusedNumbers, usize),
    orphans: &[ServiceKeys],
) -> Option<(ServiceBatch, Vec<KernelOp>)> {
    let reused = table.take_reused();
    let (rows, is_all) = table.begin(FRONTENDS_MAX);
    // A frontend that is left for the next batch may lead to a backend that goes.
    let (puts, deletes) = backends.begin(is_all);
    let has_gone = !deletes.is_empty();
    let unused = UnusedNumbers { backend: backends.unused(), service: table.unused() };
    let mut ops = Vec::new();
    let taken = table.weight().slots;
    let way = table.wildcards.give_way(taken, room);
    if !way.is_empty() {
        ops.push(KernelOp::DeleteServices(ServiceKeys::Slots(way)));
    }
    if unused != unused_before {
        ops.push(KernelOp::PutServices(ServiceRows::Unused(unused)));
    }
    if !reused.is_empty() {
        ops.push(KernelOp::ForgetServices(reused.clone()));
    }
    if !puts.is_empty() {
        ops.push(KernelOp::PutServices(ServiceRows::Backends(puts)));
    }
    let backends_put_at = ops.len();
    let has_gone = has_gone || rows.ends_some();
    let at = if mutated(Mutant::BackendGoesFirst) { Some(ops.len()) } else { None };
    write(rows, backends, &mut ops);
    if !deletes.is_empty() {
        let deletes = KernelOp::DeleteServices(ServiceKeys::Backends(deletes));
        ops.insert(at.unwrap_or(ops.len()), deletes);
    }
    if is_all {
        let (puts, deletes) = table.wildcards.begin(taken, room);
        let puts = Some(ServiceRows::Slots(puts)).filter(|it| !it.is_empty());
        let deletes = Some(ServiceKeys::Slots(deletes)).filter(|it| !it.is_empty());
        ops.extend(puts.map(KernelOp::PutServices));
        ops.extend(deletes.map(KernelOp::DeleteServices));
        ops.extend(orphans.iter().cloned().map(KernelOp::DeleteServices));
    }
    let batch = ServiceBatch {
        steps: ops.len(),
        backends_put_at,
        unused,
        reused,
        is_all,
        has_gone,
        removes_orphans: is_all && !orphans.is_empty(),
    };
    if ops.is_empty() {
        // What was to change is as it was again.
        batch.end(0, table, backends);
        return match is_all {
            true => None,
            false => next(table, backends, (unused_before, room), orphans),
        };
    }
    Some((batch, ops))
}

/// What is looked up through a row comes before the row, and goes after it: who is used before the
/// slots, the slots before the first one, which says how many there are.
fn write(rows: FrontendRows, backends: &Backends, ops: &mut Vec<KernelOp>) {
    let place = |id: &BackendId| backends.place(*id);
    let members = rows.members.iter().filter_map(|(key, state)| {
        Some((*key, BackendRow { at: place(&key.1)?, state: *state, zone: 0 }))
    });
    let tables = rows.tables.iter().map(|(at, id, backends)| {
        let all = backends.iter().filter_map(|backend| Some((*backend, place(backend)?)));
        (*id, at.at.address.is_ipv4(), all.collect())
    });
    let gone: Vec<(Frontend, u16)> = rows.gone_firsts.into_iter().chain(rows.gone_slots).collect();
    let mut puts = [
        ServiceRows::ReverseNat(rows.reverse),
        ServiceRows::Members(members.collect()),
        ServiceRows::AffinityMatches(rows.matches),
        ServiceRows::SourceRanges(rows.ranges),
        ServiceRows::Maglev(tables.collect()),
        ServiceRows::Slots(rows.slots),
        ServiceRows::Slots(rows.firsts),
    ];
    if mutated(Mutant::CountBeforeSlots) {
        puts.reverse();
    }
    let deletes = [
        ServiceKeys::Slots(gone),
        ServiceKeys::SourceRanges(rows.gone_ranges),
        ServiceKeys::AffinityMatches(rows.gone_matches),
        ServiceKeys::Maglev(rows.gone_tables),
        ServiceKeys::Members(rows.gone_members),
        ServiceKeys::ReverseNat(rows.gone_reverse),
    ];
    ops.extend(puts.into_iter().filter(|it| !it.is_empty()).map(KernelOp::PutServices));
    ops.extend(deletes.into_iter().filter(|it| !it.is_empty()).map(KernelOp::DeleteServices));
}

impl ServiceBatch {
    /// Takes in how it ended: how many of its steps were done.
    pub(super) fn end(&self, done: usize, table: &mut FrontendTable, backends: &mut Backends) {
        let is_whole = done == self.steps;
        table.end(is_whole);
        if !is_whole {
            table.return_reused(&self.reused);
        }
        backends.end(done >= self.backends_put_at, is_whole && self.is_all);
    }

    /// Whether it is all that was due.
    pub(super) fn is_all(&self) -> bool {
        self.is_all
    }

    /// Whether backends are gone, or serve some service no more, after so many steps.
    pub(super) fn removed_backends(&self, done: usize) -> bool {
        self.has_gone && done == self.steps
    }

    /// Whether what is nobody's is gone, after so many steps.
    pub(super) fn removed_orphans(&self, done: usize) -> bool {
        self.removes_orphans && done == self.steps
    }
}
