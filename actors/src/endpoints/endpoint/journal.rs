//! An endpoint's state, its log, and the view of it that others see.

use std::sync::Arc;

use super::{Endpoint, EndpointState, EndpointView, LogEntry, results::BuildOutcome};
use crate::{endpoints::endpoint::EndpointNews, host::Cx};

impl Endpoint {
    /// Moves to another state; an illegal move is refused and logged.
    pub(super) fn become_state(
        &mut self,
        cx: &Cx<'_, Self>,
        next: EndpointState,
        why: &str,
    ) -> bool {
        if self.state == next {
            return true;
        }
        if !self.state.may_become(next) {
            tracing::error!(
                endpoint = %self.id, from = %self.state, to = %next, why,
                "illegal state transition refused"
            );
            return false;
        }
        cx.state_changed(self.state.name(), next.name(), why);
        self.state = next;
        self.journal.since = cx.now();
        true
    }

    /// Adds a line to its log.
    pub(super) fn note(&mut self, cx: &Cx<'_, Self>, code: &'static str, message: &str) {
        let (message, state) = (Arc::from(message), self.state);
        self.journal.log.note(LogEntry { wall: cx.wall(), code, message, state });
    }

    /// How it looks now.
    pub(super) fn view(&self) -> Arc<EndpointView> {
        Arc::new(EndpointView {
            id: self.id,
            state: self.state,
            failing: self.results.outcome.is_failing(),
            refused: self.results.refused,
            lost: self.interface.lost.clone(),
            short: self.results.outcome == BuildOutcome::Short,
            spec: Arc::clone(&self.record.spec),
            identity: self.record.identity,
            identity_labels: Arc::clone(&self.record.identity_labels),
            info_labels: Arc::clone(&self.naming.info_labels),
            user_labels: self.record.user_labels.clone(),
            options: Arc::clone(&self.record.options),
            realised: Arc::clone(&self.realised),
            log: self.journal.log.clone(),
            counts: self.results.counts,
            last_error: self.results.last_error.clone(),
            since: self.journal.since,
            drift: Arc::clone(&self.results.drift),
        })
    }

    /// Shows its supervisor how it looks now.
    pub(super) fn publish(&mut self, _cx: &Cx<'_, Self>) -> Arc<EndpointView> {
        let view = self.view();
        self.journal.shown = Some(Arc::clone(&view));
        if let Err(refused) = self.peers.supervisor.say(EndpointNews::Changed(Arc::clone(&view))) {
            tracing::error!(endpoint = %self.id, %refused, "supervisor did not hear of a change");
        }
        view
    }
}
