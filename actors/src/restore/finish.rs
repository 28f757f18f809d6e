//! The end of restoring: when all have settled, what nobody claims goes.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
    time::Duration,
};

use super::{
    Restore, RestorePeers, RestorePlan,
    actor::{PATIENCE, Phase},
    messages::{RestoreMsg, Source},
    prune::prune,
    rebuild,
    report::Fate,
};
use crate::{
    auditor::AuditorMsg,
    conntrack::ConntrackMsg,
    endpoints::EndpointsMsg,
    host::{AskError, Cx, Reply},
    ipam::IpamMsg,
    ipcache::IpcacheMsg,
    model::{Addresses, EndpointId},
    node::NodeMsg,
    policy::PolicyMsg,
    ports::{DiskError, KernelDone, KernelJob, KernelOp, KernelSnapshot, Refusal},
    state::remove_plan,
};

/// How long all restored endpoints may take to settle before they are asked again.
const SETTLE_PATIENCE: Duration = Duration::from_secs(3600);

/// After a round in which something could not be removed: that long, then twice, three times …
const AGAIN: Duration = Duration::from_secs(2);
const AGAIN_MAX: Duration = Duration::from_secs(60);

impl Restore {
    /// Has all restored endpoints regenerate.
    pub(super) fn ask_settled(&mut self, cx: &mut Cx<'_, Self>) {
        let endpoints = self.peers.endpoints.clone();
        cx.ask(
            &endpoints,
            SETTLE_PATIENCE,
            "restored endpoints to settle",
            |reply| EndpointsMsg::RegenerateRestored { reply },
            RestoreMsg::Settled,
        );
    }

    /// Has the node or the policy say once all that it knows is mapped.
    pub(super) fn ask_synced(&mut self, cx: &mut Cx<'_, Self>, source: Source) {
        let RestorePeers { node, policy, .. } = self.peers.clone();
        let then = move |answer| RestoreMsg::Synced(source, answer);
        match source {
            Source::Node => cx.ask(&node, PATIENCE, "the node's addresses", NodeMsg::Sync, then),
            Source::Policy => {
                let why = "prefixes of the policy in the ipcache";
                cx.ask(&policy, PATIENCE, why, PolicyMsg::Idle, then);
            }
        }
    }

    pub(super) fn settled(
        &mut self,
        cx: &mut Cx<'_, Self>,
        answer: Result<BTreeMap<EndpointId, Result<(), Arc<str>>>, AskError>,
    ) {
        // Nothing of the life before is removed until they have.
        let Ok(outcomes) = answer else { return self.ask_settled(cx) };
        self.end_phase(cx, "regenerate endpoints");
        for (id, outcome) in outcomes {
            self.note_outcome(id, outcome);
        }
        self.kept.settled = true;
        if let Err(refused) = self.peers.conntrack.tell(ConntrackMsg::Begin) {
            tracing::error!(%refused, "connections are not collected");
        }
        self.prune_when_proven(cx);
    }

    fn note_outcome(&mut self, id: EndpointId, outcome: Result<(), Arc<str>>) {
        let Some(report) = self.kept.report.endpoints.get_mut(&id) else { return };
        report.fate = match &outcome {
            Err(_) => Fate::Degraded,
            Ok(()) if report.source == rebuild::SOURCE => Fate::Rebuilt,
            Ok(()) => Fate::Restored,
        };
        report.error = outcome.err().map(|error| error.to_string());
    }

    pub(super) fn synced(
        &mut self,
        cx: &mut Cx<'_, Self>,
        source: Source,
        answer: Result<(), AskError>,
    ) {
        match answer {
            Ok(()) => {
                self.kept.synced.insert(source);
                self.prune_when_proven(cx);
            }
            Err(_) => self.ask_synced(cx, source),
        }
    }

    /// Only when every source has spoken is it proven that nobody claims the rest.
    fn prune_when_proven(&mut self, cx: &mut Cx<'_, Self>) {
        let proven = self.kept.settled && self.kept.synced.len() == Source::COUNT;
        if !proven || self.kept.phase != Phase::Settling {
            return;
        }
        if !self.kept.enabled {
            return self.finish(cx);
        }
        let endpoints = self.kept.report.endpoints.iter();
        let unbuilt = endpoints.filter(|(_, report)| report.fate == Fate::Degraded);
        self.kept.report.ipcache_waits_for = unbuilt.map(|(&id, _)| id).collect();
        self.prune_ipcache(cx);
        // First what no snapshot shows: as long as it is there, something else says whose it is.
        self.kept.prune = self.kept.remains.iter().flat_map(unseen).collect();
        self.kept.prune.extend(prune(&self.kept.kernel, &self.kept.alive));
        self.kept.phase = Phase::Pruning;
        self.prune_next(cx);
    }

    /// Has the ipcache drop what nobody claims, once everyone who may claim it has spoken.
    pub(super) fn prune_ipcache(&mut self, cx: &mut Cx<'_, Self>) {
        let waited_for = self.kept.report.ipcache_waits_for.clone();
        if waited_for.is_empty() {
            if let Err(refused) = self.peers.ipcache.tell(IpcacheMsg::Prune) {
                tracing::warn!(%refused, "ipcache was not pruned");
            }
            return;
        }
        let peer = self.peers.endpoints.clone();
        cx.ask(
            &peer,
            SETTLE_PATIENCE,
            format!("{} endpoints to be built or deleted", waited_for.len()),
            |reply| EndpointsMsg::AwaitBuilt { endpoints: waited_for, reply },
            RestoreMsg::Built,
        );
    }

    pub(super) fn built(&mut self, cx: &mut Cx<'_, Self>, answer: Result<(), AskError>) {
        if answer.is_ok() {
            self.kept.report.ipcache_waits_for.clear();
        }
        self.prune_ipcache(cx);
    }

    pub(super) fn prune_next(&mut self, cx: &mut Cx<'_, Self>) {
        if self.kept.prune.is_empty() {
            return match self.kept.phase {
                Phase::Pruning => self.forget_failed(cx),
                _ => self.free_when_removed(cx),
            };
        }
        let ops = self.kept.prune.iter().map(|(op, _)| op.clone()).collect();
        let reply = cx.expect("kernel", PATIENCE, "rows nobody claims", RestoreMsg::Pruned);
        self.peers.kernel.submit(KernelJob { ops }, reply);
    }

    pub(super) fn pruned(&mut self, cx: &mut Cx<'_, Self>, answer: Result<KernelDone, AskError>) {
        match answer {
            Ok(done) => {
                let removed = done.outcomes.len().min(self.kept.prune.len());
                let removed: Vec<String> =
                    self.kept.prune.drain(..removed).map(|(_, what)| what).collect();
                self.kept.report.pruned.extend(removed);
                if let Some((_, error)) = done.failed
                    && let Some((op, what)) = self.kept.prune.pop_front()
                    && !matches!(error.refusal, Refusal::NotFound | Refusal::NoDevice)
                {
                    self.problem(format!("{what} was not removed: {error}; it is tried again"));
                    self.kept.unremoved.push((op, what));
                }
            }
            Err(error) => {
                self.problem(format!(
                    "rows nobody claims were not removed: {error}; it is tried again"
                ));
                self.kept.unremoved.extend(std::mem::take(&mut self.kept.prune));
            }
        }
        self.prune_next(cx);
    }

    /// Notes a problem, once.
    fn problem(&mut self, problem: String) {
        if !self.kept.report.problems.contains(&problem) {
            self.kept.report.problems.push(problem);
        }
    }

    /// Restoring is over; what could not be removed is tried again until it is. Till then nobody
    /// gets a number or an address of which something may be left.
    pub(super) fn free_when_removed(&mut self, cx: &mut Cx<'_, Self>) {
        if self.kept.unremoved.is_empty() && !self.kept.unforgotten {
            return self.free_remains();
        }
        self.kept.rounds += 1;
        let wait = AGAIN_MAX.min(AGAIN * self.kept.rounds);
        cx.after(wait, RestoreMsg::PruneAgain);
    }

    pub(super) fn prune_again(&mut self, cx: &mut Cx<'_, Self>) {
        // A crash may have set this twice.
        if self.kept.phase != Phase::Done || self.kept.tidying > 0 {
            return;
        }
        if std::mem::take(&mut self.kept.unforgotten) {
            let plans = self.kept.remains.keys().map(|&id| remove_plan(id)).collect();
            return self.write(cx, plans);
        }
        if self.kept.prune.is_empty() {
            self.kept.prune = std::mem::take(&mut self.kept.unremoved).into();
            self.prune_next(cx);
        }
    }

    /// Removes the state directories of endpoints that could not be brought back.
    pub(super) fn forget_failed(&mut self, cx: &mut Cx<'_, Self>) {
        self.kept.phase = Phase::Forgetting;
        // What is put aside is so before a second try removes what is left.
        let disputed = std::mem::take(&mut self.kept.plan.disputed);
        let mut plans = Vec::new();
        for (id, failed) in &self.kept.plan.failed {
            let mut plan = Vec::new();
            if let Some(reason) = failed.error.as_ref().filter(|_| disputed.contains(id)) {
                plan = self.kept.disk.put_aside(&id.to_string(), reason);
                self.kept.report.quarantined.push(format!("{id}: {reason}"));
            }
            plan.extend(remove_plan(*id));
            plans.push(plan);
        }
        self.write(cx, plans);
        if self.kept.tidying == 0 {
            self.finish(cx);
        }
    }

    /// Whether more is under way.
    pub(super) fn tidied(&mut self, answer: Result<Result<(), DiskError>, AskError>) -> bool {
        let failed = !matches!(answer, Ok(Ok(())));
        self.kept.unforgotten |= failed && self.kept.phase != Phase::Tidying;
        match answer {
            Ok(Ok(())) => {}
            Ok(Err(error)) => self.kept.report.problems.push(error.to_string()),
            Err(error) => self.kept.report.problems.push(format!("state directory: {error}")),
        }
        self.kept.tidying -= 1;
        self.kept.tidying > 0
    }

    /// Nothing is left of those that did not come back: their numbers and addresses are free.
    fn free_remains(&mut self) {
        let remains = std::mem::take(&mut self.kept.remains);
        let reserved = std::mem::take(&mut self.kept.reserved);
        for (address, _) in reserved.iter().filter(|(_, id)| remains.contains_key(id)) {
            let (address, reply) = (*address, Reply::to(|_| {}));
            if let Err(refused) = self.peers.ipam.tell(IpamMsg::Release { address, reply }) {
                tracing::warn!(%address, %refused, "address stays withheld");
            }
        }
        for &id in remains.keys() {
            if let Err(refused) = self.peers.endpoints.tell(EndpointsMsg::Gone(id)) {
                tracing::warn!(endpoint = %id, %refused, "number stays withheld");
            }
        }
    }

    pub(super) fn finish(&mut self, cx: &mut Cx<'_, Self>) {
        self.kept.phase = Phase::Done;
        if self.kept.enabled {
            self.free_when_removed(cx);
            // What is left behind from now on should not be.
            if let Err(refused) = self.peers.auditor.tell(AuditorMsg::Restored) {
                tracing::warn!(%refused, "what is left behind is not looked for");
            }
        }
        if let Err(refused) = self.peers.endpoints.tell(EndpointsMsg::Look) {
            tracing::warn!(%refused, "the outcome of restoring is looked at later");
        }
        self.end_phase(cx, "prune");
        self.kept.report.finished = true;
        tracing::info!(
            restored = self.kept.report.count(Fate::Restored),
            rebuilt = self.kept.report.count(Fate::Rebuilt),
            degraded = self.kept.report.count(Fate::Degraded),
            failed = self.kept.report.count(Fate::Failed),
            quarantined = self.kept.report.quarantined.len(),
            "restore finished"
        );
        self.kept.kernel = KernelSnapshot::default();
        self.kept.plan = RestorePlan::default();
    }
}

/// Steps that remove what no snapshot shows of an endpoint that did not come back: its policy maps
/// and its connections.
fn unseen((id, all): (&EndpointId, &BTreeSet<IpAddr>)) -> Vec<(KernelOp, String)> {
    let slots = [0, 1].map(|parity| id.slot(parity));
    let clear =
        |slot| (KernelOp::ClearSlot { slot }, format!("policy slot {slot} of endpoint {id}"));
    let scrub = |address: &IpAddr| {
        let addresses = match address {
            IpAddr::V4(address) => Addresses { ipv4: Some(*address), ipv6: None },
            IpAddr::V6(address) => Addresses { ipv4: None, ipv6: Some(*address) },
        };
        let what = format!("connections of {address} of endpoint {id}");
        (KernelOp::ScrubConntrack { addresses }, what)
    };
    slots.into_iter().map(clear).chain(all.iter().map(scrub)).collect()
}
