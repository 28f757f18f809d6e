//! How an endpoint goes: its packets are dropped first, its numbers are given back last.
//!
//! ```text
//! [state file] ─► Kernel ─► Ipcache ─► Directory ─► RoundOver ─► Links ─► end
//!                   ▲                                   │          │
//!                   ├───────── later, what is left ─────┘          │
//!                   └───────── links that came late ───────────────┘
//! ```
//!
//! - Kernel: step by step; after one that fails the rest goes on. Before the first of them a state
//!   file that is being written is waited for, so that nothing overtakes the disk.
//! - Ipcache: the datapath knows it no more; nobody is to be led to it either.
//! - Directory: it goes only if nothing is left in the kernel: it says whose that is.
//! - RoundOver: whoever asked is told if something is left. That is tried again.
//! - Links: those that are being made beside all else are waited for, and removed as well.
//! - End: its addresses, its identity and its number are free. Whoever asked is told.
//!
//! [`Endpoint::take_down`] is the only place that says what comes next. A teardown that is not at a
//! stage waits for one thing: [`TeardownWait`]. What comes in makes the next stage of it.
//!
//! What may come in between: a further deletion, which joins those who asked or is told at once what is
//! left; a timer of a build, which starts the next round early or does nothing.
//!
//! Who is told that all is gone may make the same anew at once. What could not be removed is tried
//! again until it is: nobody gets a number or an address of which something is left.

use std::{mem, rc::Rc, time::Duration};

use super::{
    Endpoint, EndpointState,
    actor::answer_all,
    answers::EndpointAnswer,
    build::{KERNEL_PATIENCE, RETRY_BASE, RETRY_MAX},
    phase::{EndpointPhase, Teardown, TeardownWait},
    plan::teardown,
};
use crate::{
    endpoints::{
        endpoint::{CreateError, EndpointNews, PatchError},
        ipam::IpamMsg,
    },
    host::{AskError, Cx, Reply},
    mutants::{Mutant, mutated},
    policy::ipcache::{IpcacheMsg, IpcacheSource},
    ports::{DiskError, KernelDone, KernelError, KernelJob, KernelOp, Refusal},
    state_directory::remove_plan,
};

/// How long the ipcache may take; it retries behind its answer.
const UNMAP_PATIENCE: Duration = Duration::from_secs(30);

/// What comes next in a teardown.
enum TeardownStage {
    /// These steps are to be done in the kernel.
    Kernel(Vec<KernelOp>),
    /// Its addresses are to leave the ipcache.
    Ipcache,
    /// Its state directory is to go.
    Directory,
    /// Each was tried once.
    RoundOver,
    /// All is gone but links that come late.
    Links,
}

impl Teardown {
    fn errors(&self) -> u32 {
        // The row only waits for what failed.
        let failed = self.failed.iter().filter(|op| !is_its_row(op)).count();
        let failed = failed.max(usize::from(self.on_disk || !self.failed.is_empty()));
        u32::try_from(failed).unwrap_or(u32::MAX)
    }

    /// Leaves a step that failed for the next round; of the steps `left` some wait for it. At an
    /// interface that is still up the programs stay: without them everything would pass. And its row
    /// stays, which says whose the rest is where no state directory does.
    fn put_off(&mut self, failed: Option<KernelOp>, left: &mut Vec<KernelOp>) {
        let is_up = matches!(failed, Some(KernelOp::LinkDown { .. }));
        self.failed.extend(failed);
        let waits = |op: &mut KernelOp| match op {
            KernelOp::Detach { .. } => is_up,
            op => is_its_row(op),
        };
        self.failed.extend(left.extract_if(.., waits));
        self.failed.sort_by_key(is_its_row);
    }

    fn answer(&mut self) {
        let errors = self.errors();
        self.replies.drain(..).for_each(|reply| reply.send(errors));
        if let Some((reply, error)) = self.creator.take() {
            reply.send(Err(error));
        }
    }
}

fn is_its_row(op: &KernelOp) -> bool {
    matches!(op, KernelOp::DeleteEndpoint { .. })
}

impl Endpoint {
    pub(super) fn delete(&mut self, cx: &mut Cx<'_, Self>, reply: Reply<u32>) {
        match &mut self.phase {
            EndpointPhase::TearingDown(_, down) if down.rounds > 0 && down.errors() > 0 => {
                reply.send(down.errors());
            }
            EndpointPhase::TearingDown(_, down) => down.replies.push(reply),
            EndpointPhase::Gone => reply.send(0),
            EndpointPhase::Idle | EndpointPhase::Building(..) => {
                self.begin_teardown(cx, vec![reply])
            }
        }
    }

    /// It could not be made: nobody wants what there is of it.
    pub(super) fn delete_unwanted(&mut self, cx: &mut Cx<'_, Self>, error: &str) {
        self.begin_teardown_as(cx, Vec::new(), CreateError::Failed(error.to_owned()));
    }

    pub(super) fn begin_teardown(&mut self, cx: &mut Cx<'_, Self>, replies: Vec<Reply<u32>>) {
        let deleted = CreateError::Failed("it was deleted while it was being made".to_owned());
        self.begin_teardown_as(cx, replies, deleted);
    }

    /// Begins; whoever desired it made is told that error at the end.
    fn begin_teardown_as(
        &mut self,
        cx: &mut Cx<'_, Self>,
        mut replies: Vec<Reply<u32>>,
        error: CreateError,
    ) {
        if mutated(Mutant::DeleteAnsweredEarly) {
            replies.drain(..).for_each(|reply| reply.send(0));
        }
        let down = Teardown {
            replies,
            creator: self.desired.creator.take().map(|reply| (reply, error)),
            failed: Vec::new(),
            on_disk: true,
            linked_late: self.datapath.settling,
            rounds: 0,
        };
        self.lasting.deleted = true;
        self.remember();
        self.become_state(cx, EndpointState::Disconnecting, "deleted");
        self.note(cx, "OK", "Deleting endpoint");
        self.publish(cx);
        let identified = self.naming.identification.take().map(|under_way| under_way.trigger);
        for trigger in identified.into_iter().chain(self.desired.stored.take()) {
            answer_all(trigger.waiting, &Err(PatchError::NotFound));
        }
        // What the disk is at is waited for, so that nothing overtakes it; the kernel's jobs are done
        // in order.
        if let EndpointPhase::Building(build, awaited) = mem::take(&mut self.phase) {
            answer_all(build.trigger.waiting, &Err(PatchError::NotFound));
            // A permit goes back after that.
            drop(awaited);
        }
        if self.saving.is_under_way {
            self.phase = EndpointPhase::TearingDown(TeardownWait::StateFile, down);
        } else {
            self.take_all_down(cx, down);
        }
    }

    pub(super) fn take_all_down(&mut self, cx: &mut Cx<'_, Self>, down: Teardown) {
        let ops = teardown(self.id, &self.record.spec);
        self.take_down(cx, down, TeardownStage::Kernel(ops));
    }

    /// Takes a teardown on from that stage, until it has to wait for something or is done.
    fn take_down(&mut self, cx: &mut Cx<'_, Self>, mut down: Teardown, mut stage: TeardownStage) {
        loop {
            stage = match stage {
                TeardownStage::Kernel(left) if left.is_empty() => TeardownStage::Ipcache,
                TeardownStage::Kernel(left) => return self.remove(cx, down, left),

                TeardownStage::Ipcache => return self.unmap(cx, down),

                // While something is left in the kernel, its state directory says whose it is.
                TeardownStage::Directory if !down.failed.is_empty() => TeardownStage::RoundOver,
                TeardownStage::Directory => return self.forget(cx, down),

                TeardownStage::RoundOver => {
                    down.rounds += 1;
                    if down.errors() > 0 {
                        return self.put_off_round(cx, down);
                    }
                    TeardownStage::Links
                }

                TeardownStage::Links if self.datapath.settling => {
                    return self.phase = EndpointPhase::TearingDown(TeardownWait::Links, down);
                }
                TeardownStage::Links if down.linked_late => {
                    down.linked_late = false;
                    let (endpoint, ifindex) = (self.id, self.record.spec.ifindex);
                    TeardownStage::Kernel(vec![KernelOp::Detach { endpoint, ifindex }])
                }
                TeardownStage::Links => return self.end(cx, down),
            };
        }
    }

    /// Has steps done in the kernel.
    fn remove(&mut self, cx: &mut Cx<'_, Self>, down: Teardown, left: Vec<KernelOp>) {
        let reply = cx.expect("kernel", KERNEL_PATIENCE, "its teardown", EndpointAnswer::TornDown);
        self.peers.kernel.submit(KernelJob::new(left.clone()), reply);
        self.phase = EndpointPhase::TearingDown(TeardownWait::Kernel(left), down);
    }

    pub(super) fn torn_down(
        &mut self,
        cx: &mut Cx<'_, Self>,
        answer: Result<KernelDone, AskError>,
    ) {
        let taken = self.phase.take_teardown(|awaited| match awaited {
            TeardownWait::Kernel(left) => Ok(left),
            other => Err(other),
        });
        let Some((mut down, mut done)) = taken else { return };
        let mut left = Vec::new();
        match answer {
            Ok(KernelDone { failed: None, .. }) => {}
            Ok(KernelDone { failed: Some((at, error)), .. }) => {
                left = done.split_off((at + 1).min(done.len()));
                // What is gone already is as good as taken down.
                if !matches!(error.refusal, Refusal::NoDevice | Refusal::NotFound) {
                    tracing::warn!(endpoint = %self.id, %error, "endpoint is not wholly removed");
                    down.put_off(done.pop(), &mut left);
                }
            }
            Err(error) => {
                tracing::warn!(endpoint = %self.id, %error, "endpoint is not wholly removed");
                down.failed.append(&mut done);
            }
        }
        self.take_down(cx, down, TeardownStage::Kernel(left));
    }

    /// Has its addresses leave the ipcache.
    fn unmap(&mut self, cx: &mut Cx<'_, Self>, down: Teardown) {
        let peers = Rc::clone(&self.peers);
        let prefixes = self.ipcache_entries().into_iter().map(|(prefix, _)| prefix).collect();
        let source = IpcacheSource::Endpoint(self.id);
        cx.ask(
            &peers.ipcache,
            UNMAP_PATIENCE,
            "its addresses to leave the ipcache",
            |reply| IpcacheMsg::Remove { prefixes, source, reply },
            EndpointAnswer::Unmapped,
        );
        self.phase = EndpointPhase::TearingDown(TeardownWait::Ipcache, down);
    }

    pub(super) fn unmapped(
        &mut self,
        cx: &mut Cx<'_, Self>,
        answer: Result<Result<(), KernelError>, AskError>,
    ) {
        // The ipcache goes on trying behind its answer.
        if !matches!(answer, Ok(Ok(()))) {
            tracing::warn!(endpoint = %self.id, ?answer, "addresses are still in the ipcache");
        }
        let taken = self.phase.take_teardown(|awaited| match awaited {
            TeardownWait::Ipcache => Ok(()),
            other => Err(other),
        });
        if let Some((down, ())) = taken {
            self.take_down(cx, down, TeardownStage::Directory);
        }
    }

    /// Has its state directory removed.
    fn forget(&mut self, cx: &mut Cx<'_, Self>, down: Teardown) {
        self.write(cx, remove_plan(self.id), EndpointAnswer::Forgotten);
        self.phase = EndpointPhase::TearingDown(TeardownWait::Directory, down);
    }

    pub(super) fn forgotten(
        &mut self,
        cx: &mut Cx<'_, Self>,
        answer: Result<Result<(), DiskError>, AskError>,
    ) {
        let taken = self.phase.take_teardown(|awaited| match awaited {
            TeardownWait::Directory => Ok(()),
            other => Err(other),
        });
        let Some((mut down, ())) = taken else { return };
        down.on_disk = !matches!(answer, Ok(Ok(())));
        if down.on_disk {
            tracing::warn!(endpoint = %self.id, ?answer, "state directory is still there");
        }
        self.take_down(cx, down, TeardownStage::RoundOver);
    }

    /// Something is left: who asked is told so, and the next round is set.
    fn put_off_round(&mut self, cx: &mut Cx<'_, Self>, mut down: Teardown) {
        down.answer();
        let wait = RETRY_MAX.min(RETRY_BASE * down.rounds);
        self.note(cx, "Failed", "Endpoint is not wholly removed; trying again");
        self.publish(cx);
        cx.after(wait, EndpointAnswer::Retry);
        self.phase = EndpointPhase::TearingDown(TeardownWait::NextRound, down);
    }

    /// What failed is tried again, if that is waited for: the timer may be one of a build.
    pub(super) fn tear_down_again(&mut self, cx: &mut Cx<'_, Self>) {
        let taken = self.phase.take_teardown(|awaited| match awaited {
            TeardownWait::NextRound => Ok(()),
            other => Err(other),
        });
        if let Some((mut down, ())) = taken {
            let left = mem::take(&mut down.failed);
            self.take_down(cx, down, TeardownStage::Kernel(left));
        }
    }

    /// Its links are made, or not: they are waited for no more.
    pub(super) fn tear_down_settled(&mut self, cx: &mut Cx<'_, Self>) {
        let taken = self.phase.take_teardown(|awaited| match awaited {
            TeardownWait::Links => Ok(()),
            other => Err(other),
        });
        if let Some((down, ())) = taken {
            self.take_down(cx, down, TeardownStage::Links);
        }
    }

    /// Nothing of it is left: its addresses, its identity and its number are free.
    fn end(&mut self, cx: &mut Cx<'_, Self>, mut down: Teardown) {
        self.phase = EndpointPhase::Gone;
        for address in self.record.spec.addresses.iter() {
            let reply = Reply::to(|_| {});
            if let Err(refused) = self.peers.ipam.tell(IpamMsg::Release { address, reply }) {
                tracing::warn!(endpoint = %self.id, %address, %refused, "address not released");
            }
        }
        let given_back = mem::take(&mut *self.references);
        drop(given_back);
        self.become_state(cx, EndpointState::Disconnected, "deleted");
        self.publish(cx);
        if let Err(refused) = self.peers.supervisor.say(EndpointNews::Gone(self.id)) {
            tracing::error!(endpoint = %self.id, %refused, "supervisor did not hear of the end");
        }
        // Only now: who makes the same anew must not meet what was.
        down.answer();
        cx.stop();
    }
}
