//! How what nobody claims goes, also when the kernel or the disk refuses at first.
//!
//! As long as something is there that no snapshot shows, something else says whose it is: of an
//! endpoint whose policy maps or connections could not be removed everything else stays too.

use std::{collections::BTreeSet, time::Duration};

use super::{
    Restore,
    answers::RestoreAnswer,
    prune::Removal,
    state::{Cleanup, PATIENCE, RestorePhase, RestoreState},
};
use crate::{
    endpoints::{endpoint::EndpointNews, ipam::IpamMsg, supervisor::EndpointsMsg},
    host::{AskError, Cx, Pauses, Reply},
    model::EndpointId,
    ports::{DiskError, KernelDone, KernelJob, Refusal},
    state_directory::remove_plan,
};

/// After a round in which something could not be removed: that long, then twice, three times …
const PAUSES: Pauses =
    Pauses::Linear { step: Duration::from_secs(2), most: Duration::from_secs(60) };

impl Restore {
    pub(super) fn prune_next(&mut self, cx: &mut Cx<'_, Self>) {
        if self.state.cleanup.prune.is_empty() {
            return match self.state.phase {
                RestorePhase::Pruning => self.forget_failed(cx),
                _ => self.forget(cx),
            };
        }
        let ops = self.state.cleanup.prune.iter().map(|removal| removal.op.clone()).collect();
        let reply = cx.expect("kernel", PATIENCE, "rows nobody claims", RestoreAnswer::Pruned);
        self.peers.kernel.submit(KernelJob::new(ops), reply);
    }

    pub(super) fn pruned(&mut self, cx: &mut Cx<'_, Self>, answer: Result<KernelDone, AskError>) {
        match answer {
            Ok(done) => {
                let removed = done.outcomes.len().min(self.state.cleanup.prune.len());
                let removed: Vec<String> =
                    self.state.cleanup.prune.drain(..removed).map(|removal| removal.what).collect();
                self.state.report.pruned.extend(removed);
                if let Some((_, error)) = done.failed
                    && let Some(removal) = self.state.cleanup.prune.pop_front()
                    && !matches!(error.refusal, Refusal::NotFound | Refusal::NoDevice)
                {
                    let what = &removal.what;
                    self.problem(format!("{what} was not removed: {error}; it is tried again"));
                    self.put_off(removal);
                }
            }
            Err(error) => {
                self.problem(format!(
                    "rows nobody claims were not removed: {error}; it is tried again"
                ));
                let Cleanup { unremoved, prune, .. } = &mut self.state.cleanup;
                unremoved.extend(prune.drain(..));
            }
        }
        self.prune_next(cx);
    }

    /// Leaves a step that failed for the next round, and behind one that no snapshot shows all
    /// others of its endpoint.
    fn put_off(&mut self, removal: Removal) {
        let (of, is_unseen) = (removal.of, removal.is_unseen());
        self.state.cleanup.unremoved.push(removal);
        if is_unseen {
            let prune = std::mem::take(&mut self.state.cleanup.prune).into_iter();
            let (later, now): (Vec<_>, Vec<_>) = prune.partition(|other| other.of == of);
            self.state.cleanup.prune = now.into();
            self.state.cleanup.unremoved.extend(later);
        }
    }

    /// Endpoints of which something is left that no snapshot shows.
    fn held(&self) -> BTreeSet<EndpointId> {
        let unseen = self.state.cleanup.unremoved.iter().filter(|removal| removal.is_unseen());
        unseen.map(|removal| removal.of).collect()
    }

    /// Notes a problem, once.
    fn problem(&mut self, problem: String) {
        if !self.state.report.problems.contains(&problem) {
            self.state.report.problems.push(problem);
        }
    }

    /// Restoring is over; what could not be removed is tried again until it is. Till then nobody
    /// gets a number or an address of which something may be left.
    pub(super) fn free_when_removed(&mut self, cx: &mut Cx<'_, Self>) {
        let Cleanup { unremoved, untidied, unforgotten, .. } = &self.state.cleanup;
        if unremoved.is_empty() && untidied.is_empty() && unforgotten.is_empty() {
            // Of those that were not to be restored all else stays.
            if self.state.enabled {
                self.free_remains();
            }
            return;
        }
        self.state.cleanup.rounds += 1;
        cx.after(PAUSES.after(self.state.cleanup.rounds), RestoreAnswer::PruneAgain);
    }

    pub(super) fn prune_again(&mut self, cx: &mut Cx<'_, Self>) {
        // A crash may have set this twice.
        if self.state.phase == RestorePhase::Done
            && self.state.cleanup.writing == 0
            && self.state.cleanup.prune.is_empty()
        {
            self.state.cleanup.prune = std::mem::take(&mut self.state.cleanup.unremoved).into();
            self.prune_next(cx);
        }
    }

    /// Removes the state directories of endpoints that could not be brought back.
    pub(super) fn forget_failed(&mut self, cx: &mut Cx<'_, Self>) {
        self.state.phase = RestorePhase::Forgetting;
        let RestoreState { plan, disk, report, cleanup, dormant, .. } = &mut *self.state;
        let Cleanup { untidied, unforgotten, .. } = cleanup;
        unforgotten.extend(plan.failed.keys().filter(|id| !dormant.contains(id)));
        let disputed = std::mem::take(&mut plan.disputed);
        for (&id, failed) in plan.failed.iter().filter(|(id, _)| disputed.contains(id)) {
            let Some(reason) = &failed.error else { continue };
            untidied.entry(id).or_default().extend(disk.put_aside(&id.to_string(), reason));
            report.quarantined.push(format!("{id}: {reason}"));
        }
        self.forget(cx);
    }

    /// Removes the directories of those of which nothing else is left, once what is evidence is put
    /// aside.
    fn forget(&mut self, cx: &mut Cx<'_, Self>) {
        let held = self.held();
        let mut plans = self.state.cleanup.untidied.clone();
        for &id in self.state.cleanup.unforgotten.difference(&held) {
            plans.entry(id).or_default().extend(remove_plan(id));
        }
        self.write(cx, plans);
        if self.state.cleanup.writing == 0 {
            self.written(cx);
        }
    }

    /// All that was asked of the disk is answered.
    fn written(&mut self, cx: &mut Cx<'_, Self>) {
        match self.state.phase {
            RestorePhase::Done => self.free_when_removed(cx),
            _ => self.finish(cx),
        }
    }

    pub(super) fn tidied(
        &mut self,
        cx: &mut Cx<'_, Self>,
        id: EndpointId,
        answer: Result<Result<(), DiskError>, AskError>,
    ) {
        match answer {
            Ok(Ok(())) => {
                self.state.cleanup.untidied.remove(&id);
                if self.state.phase != RestorePhase::Tidying && !self.held().contains(&id) {
                    self.state.cleanup.unforgotten.remove(&id);
                }
            }
            Ok(Err(error)) => self.problem(error.to_string()),
            Err(error) => self.problem(format!("state directory of endpoint {id}: {error}")),
        }
        self.state.cleanup.writing = self.state.cleanup.writing.saturating_sub(1);
        match self.state.phase {
            _ if self.state.cleanup.writing > 0 => {}
            RestorePhase::Tidying => self.reserve(cx),
            _ => self.written(cx),
        }
    }

    /// Nothing is left of those that did not come back: their numbers and addresses are free.
    fn free_remains(&mut self) {
        let remains = std::mem::take(&mut self.state.remains);
        let reserved = std::mem::take(&mut self.state.reserved);
        for (address, _) in reserved.iter().filter(|(_, id)| remains.contains_key(id)) {
            let (address, reply) = (*address, Reply::to(|_| {}));
            if let Err(refused) = self.peers.ipam.tell(IpamMsg::Release { address, reply }) {
                tracing::warn!(%address, %refused, "address stays withheld");
            }
        }
        for &id in remains.keys().filter(|id| !self.state.dormant.contains(id)) {
            if let Err(refused) =
                self.peers.endpoints.tell(EndpointsMsg::Endpoint(EndpointNews::Gone(id)))
            {
                tracing::warn!(endpoint = %id, %refused, "number stays withheld");
            }
        }
    }
}
