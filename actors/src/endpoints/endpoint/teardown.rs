//! How an endpoint goes: its packets are dropped first, its numbers are given back last.
//!
//! ```text
//! kernel ─► ipcache ─► state directory ─► addresses, identity, number ─► [whoever asked is told]
//!   ▲                        │
//!   └── what failed, later ──┘ [and whoever asked is told of it]
//! ```
//!
//! Who is told that all is gone may make the same anew at once. What could not be removed is tried
//! again until it is: nobody gets a number or an address of which something is left.

use std::{rc::Rc, sync::Arc, time::Duration};

use super::{
    Endpoint, EndpointView, State,
    actor::answer_all,
    answers::EndpointAnswer,
    build::{RETRY_BASE, RETRY_MAX},
    plan::teardown,
    steps::KERNEL_PATIENCE,
};
use crate::{
    endpoints::{
        endpoint::{CreateError, EndpointNews, PatchError},
        ipam::IpamMsg,
    },
    host::{AskError, Cx, Reply},
    mutants::{Mutant, mutated},
    policy::ipcache::{IpcacheMsg, Source},
    ports::{DiskError, KernelDone, KernelError, KernelJob, KernelOp, Refusal},
    state_directory::remove_plan,
};

/// How long the ipcache may take; it retries behind its answer.
const UNMAP_PATIENCE: Duration = Duration::from_secs(30);

type Creator = Reply<Result<Arc<EndpointView>, CreateError>>;

/// An endpoint on its way out.
pub(super) struct Teardown {
    replies: Vec<Reply<u32>>,
    /// Who wanted it made, and why it was not.
    creator: Option<(Creator, CreateError)>,
    /// Steps that are left in the kernel.
    left: Vec<KernelOp>,
    /// Steps that failed.
    failed: Vec<KernelOp>,
    /// Whether its state directory is still there.
    on_disk: bool,
    /// Links may have been made behind the step that removes them.
    linked_late: bool,
    rounds: u32,
}

impl Teardown {
    fn errors(&self) -> u32 {
        // The row only waits for what failed.
        let failed = self.failed.iter().filter(|op| !is_its_row(op)).count();
        let failed = failed.max(usize::from(self.on_disk || !self.failed.is_empty()));
        u32::try_from(failed).unwrap_or(u32::MAX)
    }

    /// Leaves a step that failed for the next round. At an interface that is still up the programs
    /// stay: without them everything would pass. And its row stays, which says whose the rest is
    /// where no state directory does.
    fn put_off(&mut self, failed: Option<KernelOp>) {
        let is_up = matches!(failed, Some(KernelOp::LinkDown { .. }));
        self.failed.extend(failed);
        let waits = |op: &mut KernelOp| match op {
            KernelOp::Detach { .. } => is_up,
            op => is_its_row(op),
        };
        self.failed.extend(self.left.extract_if(.., waits));
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
        match &mut self.teardown {
            Some(down) if down.rounds > 0 && down.errors() > 0 => reply.send(down.errors()),
            Some(down) => down.replies.push(reply),
            None => self.begin_teardown(cx, vec![reply]),
        }
    }

    /// It could not be made: nobody wants what there is of it.
    pub(super) fn delete_unwanted(&mut self, cx: &mut Cx<'_, Self>, error: &str) {
        let error = CreateError::Failed(error.to_owned());
        let creator = self.begin.take().map(|reply| (reply, error));
        self.begin_teardown(cx, Vec::new());
        if let Some(down) = &mut self.teardown {
            down.creator = creator;
        }
    }

    pub(super) fn begin_teardown(&mut self, cx: &mut Cx<'_, Self>, mut replies: Vec<Reply<u32>>) {
        if mutated(Mutant::DeleteAnsweredEarly) {
            replies.drain(..).for_each(|reply| reply.send(0));
        }
        let deleted = CreateError::Failed("it was deleted while it was being made".to_owned());
        self.teardown = Some(Teardown {
            replies,
            creator: self.begin.take().map(|reply| (reply, deleted)),
            left: teardown(self.id, &self.spec),
            failed: Vec::new(),
            on_disk: true,
            linked_late: self.settling,
            rounds: 0,
        });
        self.remember();
        self.become_state(cx, State::Disconnecting, "deleted");
        self.note(cx, "OK", "Deleting endpoint");
        self.publish(cx);
        let identified = self.identification.take().map(|under_way| under_way.trigger);
        for trigger in identified.into_iter().chain(self.stored.take()) {
            answer_all(trigger.waiting, &Err(PatchError::NotFound));
        }
        // What the disk is at is waited for, so that nothing overtakes it; the kernel's jobs are done
        // in order.
        if self.saving.is_none() {
            self.tear_down(cx);
        }
    }

    /// Takes the next steps down.
    pub(super) fn tear_down(&mut self, cx: &mut Cx<'_, Self>) {
        if let Some(build) = self.build.take() {
            answer_all(build.trigger.waiting, &Err(PatchError::NotFound));
        }
        let Some(down) = &self.teardown else { return };
        if down.left.is_empty() {
            return self.unmap(cx);
        }
        let ops = down.left.clone();
        let reply = cx.expect("kernel", KERNEL_PATIENCE, "its teardown", EndpointAnswer::TornDown);
        self.peers.kernel.submit(KernelJob::new(ops), reply);
    }

    pub(super) fn torn_down(
        &mut self,
        cx: &mut Cx<'_, Self>,
        answer: Result<KernelDone, AskError>,
    ) {
        let Some(down) = &mut self.teardown else { return };
        let mut left = std::mem::take(&mut down.left);
        match answer {
            Ok(KernelDone { failed: None, .. }) => {}
            Ok(KernelDone { failed: Some((at, error)), .. }) => {
                down.left = left.split_off((at + 1).min(left.len()));
                // What is gone already is as good as taken down.
                if !matches!(error.refusal, Refusal::NoDevice | Refusal::NotFound) {
                    tracing::warn!(endpoint = %self.id, %error, "endpoint is not wholly removed");
                    down.put_off(left.pop());
                }
            }
            Err(error) => {
                tracing::warn!(endpoint = %self.id, %error, "endpoint is not wholly removed");
                down.failed.append(&mut left);
            }
        }
        self.tear_down(cx);
    }

    /// The datapath knows it no more; nobody is to be led to it either.
    fn unmap(&mut self, cx: &mut Cx<'_, Self>) {
        let peers = Rc::clone(&self.peers);
        let prefixes = self.ipcache_entries().into_iter().map(|(prefix, _)| prefix).collect();
        let source = Source::Endpoint(self.id);
        cx.ask(
            &peers.ipcache,
            UNMAP_PATIENCE,
            "its addresses to leave the ipcache",
            |reply| IpcacheMsg::Remove { prefixes, source, reply },
            EndpointAnswer::Unmapped,
        );
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
        // While something is left in the kernel, its state directory says whose it is.
        if self.teardown.as_ref().is_some_and(|down| !down.failed.is_empty()) {
            return self.conclude(cx);
        }
        let ops = remove_plan(self.id);
        self.write(cx, ops, EndpointAnswer::Forgotten);
    }

    pub(super) fn forgotten(
        &mut self,
        cx: &mut Cx<'_, Self>,
        answer: Result<Result<(), DiskError>, AskError>,
    ) {
        let Some(down) = &mut self.teardown else { return };
        down.on_disk = !matches!(answer, Ok(Ok(())));
        if down.on_disk {
            tracing::warn!(endpoint = %self.id, ?answer, "state directory is still there");
        }
        self.conclude(cx);
    }

    /// A round is over: who asked is told what is left, and the next one is set if it is needed.
    fn conclude(&mut self, cx: &mut Cx<'_, Self>) {
        let Some(down) = &mut self.teardown else { return };
        down.rounds += 1;
        if down.errors() > 0 {
            down.answer();
            let wait = RETRY_MAX.min(RETRY_BASE * down.rounds);
            self.note(cx, "Failed", "Endpoint is not wholly removed; trying again");
            self.publish(cx);
            cx.after(wait, EndpointAnswer::Retry);
        } else {
            self.tear_down_settled(cx);
        }
    }

    /// What failed is tried again.
    pub(super) fn tear_down_again(&mut self, cx: &mut Cx<'_, Self>) {
        let Some(down) = &mut self.teardown else { return };
        // A retry of the time before the end may come in between.
        if down.rounds > 0 && down.left.is_empty() && down.errors() > 0 {
            down.left = std::mem::take(&mut down.failed);
            self.tear_down(cx);
        }
    }

    /// Ends, unless its links are still being made.
    pub(super) fn tear_down_settled(&mut self, cx: &mut Cx<'_, Self>) {
        let settling = self.settling;
        let Some(down) = &mut self.teardown else { return };
        if settling || down.rounds == 0 || down.errors() > 0 || !down.left.is_empty() {
            return;
        }
        if std::mem::take(&mut down.linked_late) {
            let (endpoint, ifindex) = (self.id, self.spec.ifindex);
            down.left.push(KernelOp::Detach { endpoint, ifindex });
            return self.tear_down(cx);
        }
        self.end(cx);
    }

    /// Nothing of it is left: its addresses, its identity and its number are free.
    fn end(&mut self, cx: &mut Cx<'_, Self>) {
        for address in self.spec.addresses.iter() {
            let reply = Reply::to(|_| {});
            if let Err(refused) = self.peers.ipam.tell(IpamMsg::Release { address, reply }) {
                tracing::warn!(endpoint = %self.id, %address, %refused, "address not released");
            }
        }
        let given_back = std::mem::take(&mut *self.references);
        drop(given_back);
        self.become_state(cx, State::Disconnected, "deleted");
        self.publish(cx);
        if let Err(refused) = self.peers.supervisor.say(EndpointNews::Gone(self.id)) {
            tracing::error!(endpoint = %self.id, %refused, "supervisor did not hear of the end");
        }
        // Only now: who makes the same anew must not meet what was.
        if let Some(down) = &mut self.teardown {
            down.answer();
        }
        cx.stop();
    }
}
