//! The end of restoring: when all have settled, what nobody claims goes.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use super::{
    Restore, RestorePeers, RestorePlan,
    answers::RestoreAnswer,
    messages::MappingSource,
    prune::{prune, reached, unseen},
    rebuild,
    report::RestoreOutcome,
    state::{PATIENCE, RestorePhase},
};
use crate::{
    endpoints::supervisor::EndpointsMsg,
    host::{AskError, Cx},
    model::EndpointId,
    node::{auditor::AuditorMsg, conntrack::ConntrackMsg, local_node::NodeMsg},
    policy::{identity::IdentityMsg, ipcache::IpcacheMsg, rules::PolicyMsg},
    ports::KernelSnapshot,
};

/// How long all restored endpoints may take to settle before they are asked again.
const SETTLE_PATIENCE: Duration = Duration::from_secs(3600);

impl Restore {
    /// Has all restored endpoints regenerate.
    pub(super) fn ask_settled(&mut self, cx: &mut Cx<'_, Self>) {
        let endpoints = self.peers.endpoints.clone();
        cx.ask(
            &endpoints,
            SETTLE_PATIENCE,
            "restored endpoints to settle",
            |reply| EndpointsMsg::RegenerateRestored { reply },
            RestoreAnswer::Settled,
        );
    }

    /// Has the node or the policy say once all that it knows is mapped.
    pub(super) fn ask_synced(&mut self, cx: &mut Cx<'_, Self>, source: MappingSource) {
        let RestorePeers { node, policy, .. } = self.peers.clone();
        let then = move |answer| RestoreAnswer::Synced(source, answer);
        match source {
            MappingSource::Node => {
                cx.ask(&node, PATIENCE, "the node's addresses", NodeMsg::Sync, then)
            }
            MappingSource::Policy => {
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
        // Nothing of the run before is removed until they have.
        let Ok(outcomes) = answer else { return self.ask_settled(cx) };
        self.end_phase(cx, "regenerate endpoints");
        for (id, outcome) in outcomes {
            self.note_outcome(id, outcome);
        }
        self.state.settled = true;
        if let Err(refused) = self.peers.conntrack.tell(ConntrackMsg::Begin) {
            tracing::error!(%refused, "connections are not collected");
        }
        self.prune_when_proven(cx);
    }

    fn note_outcome(&mut self, id: EndpointId, outcome: Result<(), Arc<str>>) {
        let Some(report) = self.state.report.endpoints.get_mut(&id) else { return };
        report.fate = match &outcome {
            Err(_) => RestoreOutcome::Degraded,
            Ok(()) if report.source == rebuild::SOURCE => RestoreOutcome::Rebuilt,
            Ok(()) => RestoreOutcome::Restored,
        };
        report.error = outcome.err().map(|error| error.to_string());
    }

    pub(super) fn synced(
        &mut self,
        cx: &mut Cx<'_, Self>,
        source: MappingSource,
        answer: Result<(), AskError>,
    ) {
        match answer {
            Ok(()) => {
                self.state.synced.insert(source);
                self.prune_when_proven(cx);
            }
            Err(_) => self.ask_synced(cx, source),
        }
    }

    /// Whether every restored endpoint has settled, and the node and the policy have spoken.
    fn is_programmed(&self) -> bool {
        self.state.settled && self.state.synced.len() == MappingSource::COUNT
    }

    pub(super) fn answer_when_programmed(&mut self) {
        if self.is_programmed() {
            let enabled = self.state.enabled;
            self.state.awaiting.drain(..).for_each(|reply| reply.send(enabled));
        }
    }

    /// Only when every source has spoken is it proven that nobody claims the rest.
    fn prune_when_proven(&mut self, cx: &mut Cx<'_, Self>) {
        self.answer_when_programmed();
        if !self.is_programmed() || self.state.phase != RestorePhase::Settling {
            return;
        }
        if !self.state.enabled {
            self.state.cleanup.prune = reached(&self.state.kernel, &self.state.alive).into();
            self.state.phase = RestorePhase::Pruning;
            return self.prune_next(cx);
        }
        let endpoints = self.state.report.endpoints.iter();
        let unbuilt = endpoints.filter(|(_, report)| report.fate == RestoreOutcome::Degraded);
        self.state.report.ipcache_waits_for = unbuilt.map(|(&id, _)| id).collect();
        self.prune_ipcache(cx);
        self.state.cleanup.prune = self.state.remains.iter().flat_map(unseen).collect();
        let state = &mut *self.state;
        state.cleanup.prune.extend(prune(&state.kernel, &state.alive, state.host));
        self.state.phase = RestorePhase::Pruning;
        self.prune_next(cx);
    }

    /// Has the ipcache drop what nobody claims, once everyone who may claim it has spoken.
    pub(super) fn prune_ipcache(&mut self, cx: &mut Cx<'_, Self>) {
        let waited_for = self.state.report.ipcache_waits_for.clone();
        if waited_for.is_empty() {
            if let Err(refused) = self.peers.identities.tell(IdentityMsg::ReleaseWithheld) {
                tracing::warn!(%refused, "identities of the life before stay in use");
            }
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
            RestoreAnswer::Built,
        );
    }

    pub(super) fn built(&mut self, cx: &mut Cx<'_, Self>, answer: Result<(), AskError>) {
        if answer.is_ok() {
            self.state.report.ipcache_waits_for.clear();
        }
        self.prune_ipcache(cx);
    }

    pub(super) fn finish(&mut self, cx: &mut Cx<'_, Self>) {
        self.state.phase = RestorePhase::Done;
        self.free_when_removed(cx);
        if self.state.enabled {
            // What is left behind from now on should not be.
            if let Err(refused) = self.peers.endpoints.tell(EndpointsMsg::Cleaned) {
                tracing::warn!(%refused, "rows of nobody stay");
            }
            if let Err(refused) = self.peers.auditor.tell(AuditorMsg::Restored) {
                tracing::warn!(%refused, "what is left behind is not looked for");
            }
        }
        if let Err(refused) = self.peers.endpoints.tell(EndpointsMsg::Look) {
            tracing::warn!(%refused, "the outcome of restoring is looked at later");
        }
        self.end_phase(cx, "prune");
        self.state.report.finished = true;
        tracing::info!(
            restored = self.state.report.count(RestoreOutcome::Restored),
            rebuilt = self.state.report.count(RestoreOutcome::Rebuilt),
            degraded = self.state.report.count(RestoreOutcome::Degraded),
            failed = self.state.report.count(RestoreOutcome::Failed),
            quarantined = self.state.report.quarantined.len(),
            "restore finished"
        );
        for problem in &self.state.report.problems {
            tracing::warn!(problem, "restoring was not what it should be");
        }
        self.state.kernel = KernelSnapshot::default();
        self.state.plan = RestorePlan::default();
    }
}
