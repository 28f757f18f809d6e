//! How an endpoint compares what the kernel shows with what it knows.

use std::sync::Arc;

use super::{Endpoint, State, build::Trigger, known::Known};
use crate::{
    endpoints::Level,
    host::Cx,
    ports::{KernelSnapshot, OwnedRows, Time},
};

impl Endpoint {
    /// Puts a difference right, and what could not be finished.
    pub(super) fn audit(
        &mut self,
        cx: &mut Cx<'_, Self>,
        snapshot: &KernelSnapshot,
        rows: &OwnedRows,
        asked: Time,
    ) {
        let at_rest = !self.busy && !self.settling && self.build.is_none();
        // What was done after the question may not show in the answer.
        if !at_rest || self.state != State::Ready || self.worked_at >= asked {
            return;
        }
        let Some(known) = &self.known else { return };
        let seen = Known::seen(snapshot, rows, self.id, &self.spec);
        if seen == known.shown() {
            return self.settle(cx);
        }
        tracing::warn!(endpoint = %self.id, "the kernel's rows differ from what was written");
        // The policy map is read again as well: whoever changed the rows may have changed it.
        self.known = Some(seen);
        let reason = Arc::from("datapath differs from what was written");
        self.trigger(cx, Trigger::new(Level::Rewrite, reason, Vec::new()));
    }
}
