//! Jobs that the kernel keeps for longer than their actor has patience.

use std::{
    cell::RefCell,
    collections::{BTreeMap, VecDeque},
    rc::Rc,
};

use super::{Kernel, KernelDone, KernelJob, KernelOp};
use crate::host::{CellId, Host, Reply};

type JobQueue = VecDeque<(KernelJob, Reply<KernelDone>)>;
/// Whose jobs they are; links are made beside all else.
type JobQueueKey = (CellId, bool);
/// What waits behind the job under way of each line that has one.
type JobQueues = RefCell<BTreeMap<JobQueueKey, JobQueue>>;

/// A kernel that has each actor's jobs done one after the other, also those that were given up:
/// whoever reads after a write without an answer reads what came of that, and what was asked for
/// later is never overwritten by what was asked for before. What nobody waits for any more when
/// its turn comes is not begun.
///
/// An actor that crashed is the same one in its next life. Reads alone wait for nobody but writes.
pub struct InOrder {
    kernel: Rc<dyn Kernel>,
    host: Host,
    lines: Rc<JobQueues>,
}

impl InOrder {
    /// Puts order into the jobs of that host's actors.
    pub fn new(kernel: Rc<dyn Kernel>, host: &Host) -> Self {
        Self { kernel, host: host.clone(), lines: Rc::default() }
    }
}

impl Kernel for InOrder {
    fn submit(&self, job: KernelJob, reply: Reply<KernelDone>) {
        let job = KernelJob { by: self.host.current(), ..job };
        let Some(cell) = job.by.cell else { return self.kernel.submit(job, reply) };
        let line = (cell, job.ops.iter().any(|op| matches!(op, KernelOp::Settle { .. })));
        let mut lines = self.lines.borrow_mut();
        if let Some(waiting) = lines.get_mut(&line) {
            return waiting.push_back((job, reply));
        }
        if !job.ops.iter().any(KernelOp::writes) {
            drop(lines);
            return self.kernel.submit(job, reply);
        }
        lines.insert(line, JobQueue::new());
        drop(lines);
        begin(&self.kernel, &self.lines, line, job, reply);
    }
}

fn begin(
    kernel: &Rc<dyn Kernel>,
    lines: &Rc<JobQueues>,
    line: JobQueueKey,
    job: KernelJob,
    reply: Reply<KernelDone>,
) {
    let (next, rest) = (Rc::clone(kernel), Rc::clone(lines));
    let ended = Reply::to(move |answer| {
        match answer {
            Ok(done) => reply.send(done),
            // Dropped, it says that there is none.
            Err(_) => drop(reply),
        }
        if let Some((job, reply)) = next_of(&rest, line) {
            begin(&next, &rest, line, job, reply);
        }
    });
    kernel.submit(job, ended);
}

/// The next job of a line that somebody waits for; without one the line ends.
fn next_of(lines: &JobQueues, line: JobQueueKey) -> Option<(KernelJob, Reply<KernelDone>)> {
    let mut given_up = Vec::new();
    let mut all = lines.borrow_mut();
    let waiting = all.get_mut(&line)?;
    while let Some(next) = waiting.pop_front() {
        if !next.1.is_closed() {
            return Some(next);
        }
        given_up.push(next);
    }
    all.remove(&line);
    // A reply that goes may call its asker, who may ask again.
    drop(all);
    drop(given_up);
    None
}
