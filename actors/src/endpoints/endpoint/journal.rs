//! An endpoint's state, its log, and the view of it that others see.

use std::sync::Arc;

use super::{Endpoint, EndpointView, LogEntry, State};
use crate::{endpoints::endpoint::EndpointNews, host::Cx};

impl Endpoint {
    /// Moves to another state; an illegal move is refused and logged.
    pub(super) fn become_state(&mut self, cx: &Cx<'_, Self>, next: State, why: &str) -> bool {
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
        self.since = cx.now();
        true
    }

    /// Adds a line to its log.
    pub(super) fn note(&mut self, cx: &Cx<'_, Self>, code: &'static str, message: &str) {
        let (message, state) = (Arc::from(message), self.state);
        self.log.note(LogEntry { wall: cx.wall(), code, message, state });
    }

    /// How it looks now.
    pub(super) fn view(&self) -> Arc<EndpointView> {
        Arc::new(EndpointView {
            id: self.id,
            state: self.state,
            failing: self.failing,
            refused: self.refused,
            lost: self.lost.clone(),
            short: self.short,
            spec: Arc::clone(&self.spec),
            identity: self.identity,
            identity_labels: Arc::clone(&self.identity_labels),
            info_labels: Arc::clone(&self.info_labels),
            user_labels: self.user_labels.clone(),
            options: Arc::clone(&self.options),
            realised: Arc::clone(&self.realised),
            log: self.log.clone(),
            builds: self.builds,
            last_build: self.last_build,
            failures: self.failures,
            failures_in_a_row: self.failures_in_a_row,
            last_error: self.last_error.clone(),
            since: self.since,
            drift: Arc::clone(&self.drift),
        })
    }

    /// Shows its supervisor how it looks now.
    pub(super) fn publish(&mut self, _cx: &Cx<'_, Self>) -> Arc<EndpointView> {
        let view = self.view();
        self.shown = Some(Arc::clone(&view));
        if let Err(refused) = self.peers.supervisor.say(EndpointNews::Changed(Arc::clone(&view))) {
            tracing::error!(endpoint = %self.id, %refused, "supervisor did not hear of a change");
        }
        view
    }
}
