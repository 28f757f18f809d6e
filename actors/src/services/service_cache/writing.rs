//! The life of what is written to the load balancer's maps: one batch after the other.
//!
//! ```text
//!     nothing is due: who asked is answered
//!          ┌──┐
//!          │  ▼      something is due
//!   ┌───► Resting ─────────────────────► InKernel ─────┐
//!   │         ▲                             │   all of it is done: who asked is answered
//!   │         └─────────────────────────────┼──────────┘
//!   │ time is over                          │ a step failed, or nobody answered
//!   └──────────────── Pausing ◄─────────────┘
//! ```
//!
//! - What waits is *due* in the table of frontends, among backends, or among addresses. A batch takes
//!   as much of it as it may; what it leaves waits for the next one.
//! - What is being written is *flying* there. What is desired of it meanwhile is due again.
//! - What was in a batch that failed is *unsure*, and due again as a whole: any of its steps may have
//!   been done. It is written when the pause is over, with all that came to be due till then.
//! - What a [sweep](super::sweep) finds to be otherwise is unsure as well. Rows of nobody go with
//!   the last batch of what is due.
//!
//! A crash forgets the batch, and who waits for it hears that. What was flying is unsure then.

use std::time::Duration;

use super::{
    Services,
    answers::ServicesAnswer,
    batch::{self, ServiceBatch},
    state::{Failures, ServiceCacheState, Writing, WrittenReply},
};
use crate::{
    host::{AskError, Cx},
    ports::{KernelDone, KernelJob, KernelOp},
};

/// How long the kernel may take for a batch.
const PATIENCE: Duration = Duration::from_secs(60);
/// After the nth failure in a row the next try waits n times as long.
const RETRY_STEP: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(30);

/// What leads from one phase to another.
pub(super) enum WritingEvent {
    /// Something may be due.
    Look,
    /// The kernel's answer to a batch.
    Written(Result<KernelDone, AskError>),
    /// The pause is over.
    Retry,
}

impl Services {
    /// Says what comes next: nobody else does.
    pub(super) fn advance(&mut self, event: WritingEvent, cx: &mut Cx<'_, Self>) {
        self.writing = match (std::mem::take(&mut self.writing), event) {
            (Writing::Resting, WritingEvent::Look) => match self.state.take_batch() {
                Some((batch, ops)) => self.give(batch, ops, cx),
                None => {
                    answer(&mut self.askers);
                    Writing::Resting
                }
            },
            (Writing::InKernel { batch, mut askers }, WritingEvent::Written(done)) => {
                match self.state.take_in(&batch, done) {
                    Ok(()) => {
                        self.failures = None;
                        answer(&mut askers);
                        Writing::Resting
                    }
                    Err(error) => {
                        self.askers.append(&mut askers);
                        self.pause(error, cx);
                        Writing::Pausing
                    }
                }
            }
            (Writing::Pausing, WritingEvent::Retry) => Writing::Resting,
            // What is due waits.
            (writing @ (Writing::InKernel { .. } | Writing::Pausing), WritingEvent::Look) => {
                writing
            }
            // Of a batch or a pause that was before.
            (writing, WritingEvent::Written(_) | WritingEvent::Retry) => writing,
        };
    }

    /// Gives the kernel a batch. Who asked waits for it if it is all that was due.
    fn give(&mut self, batch: ServiceBatch, ops: Vec<KernelOp>, cx: &mut Cx<'_, Self>) -> Writing {
        let is_all = batch.is_all();
        let askers = if is_all { std::mem::take(&mut self.askers) } else { Vec::new() };
        let why = "rows of services";
        let reply = cx.expect("kernel", PATIENCE, why, ServicesAnswer::Written);
        self.kernel.submit(KernelJob::new(ops), reply);
        Writing::InKernel { batch, askers }
    }

    /// The longer the more often it failed.
    fn pause(&mut self, error: String, cx: &mut Cx<'_, Self>) {
        let count = self.failures.as_ref().map_or(0, |failures| failures.count) + 1;
        let wait = RETRY_MAX.min(RETRY_STEP * count);
        tracing::warn!(error, retry_in = ?wait, "services were not written");
        self.failures = Some(Failures { count, error });
        cx.after(wait, ServicesAnswer::Retry);
    }

    /// Whether the kernel has a batch: what is read of its maps meanwhile may be older or newer.
    pub(super) fn is_writing(&self) -> bool {
        matches!(self.writing, Writing::InKernel { .. })
    }
}

fn answer(askers: &mut Vec<WrittenReply>) {
    askers.drain(..).for_each(|asker| asker.send(Ok(())));
}

impl ServiceCacheState {
    /// The next batch and its steps, if anything is due.
    fn take_batch(&mut self) -> Option<(ServiceBatch, Vec<KernelOp>)> {
        let is_pruned = self.pruned.frontends.is_some();
        if is_pruned && !self.findings.orphans.is_empty() {
            // Somebody may have come to mean them.
            let orphans = std::mem::take(&mut self.findings.orphans);
            self.findings.orphans = self.table.nobodys(orphans);
        }
        let orphans = if is_pruned { &self.findings.orphans[..] } else { &[] };
        batch::next(&mut self.table, &mut self.backends, (self.unused, self.room), orphans)
    }

    /// Takes in how a batch ended; why it failed, if it did.
    fn take_in(
        &mut self,
        batch: &ServiceBatch,
        done: Result<KernelDone, AskError>,
    ) -> Result<(), String> {
        let steps = done.as_ref().map_or(0, |done| done.outcomes.len());
        batch.end(steps, &mut self.table, &mut self.backends);
        if batch.removed_backends(steps) {
            self.backends_gone = true;
        }
        if steps > 0 {
            self.unused = batch.unused;
        }
        if batch.removed_orphans(steps) {
            self.findings.orphans.clear();
        }
        match done.map_err(|error| error.to_string())?.failed {
            Some((_, error)) => Err(error.to_string()),
            None => {
                self.pack();
                self.make_room();
                // Something may be gone, and leave room.
                self.claims.retry(&mut self.changed);
                Ok(())
            }
        }
    }

    /// Nobody heard how the batch of the run before ended, if there was one.
    pub(super) fn end_unheard(&mut self) {
        self.table.end(false);
        self.backends.end(false, false);
    }
}
