//! How an endpoint compares what the kernel shows with what it knows.

use std::sync::Arc;

use super::{Endpoint, Lost, State, build::Trigger, known::Known};
use crate::{
    endpoints::Level,
    host::Cx,
    mutants::{Mutant, mutated},
    ports::{KernelSnapshot, OwnedRows, Probe, Time},
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
        let Some(known) = self.known.as_ref().map(Known::shown) else { return };
        let seen = Known::seen(snapshot, rows, self.id, &self.spec);
        let link = snapshot.links.get(&self.spec.ifindex).cloned();
        let (attachment, routes) = (seen.attachment, seen.routes.clone());
        let lost = Lost::seen(&self.spec, &Probe { link, attachment, routes });
        let lost = lost.filter(|_| !mutated(Mutant::LostUnnoticed));
        if lost.as_ref().is_some_and(|lost| lost.gone) {
            // There is nothing to build at.
            return self.lose(cx, lost);
        }
        if seen == known && self.lost == lost {
            return self.settle(cx);
        }
        self.lose(cx, lost);
        tracing::warn!(endpoint = %self.id, "the kernel's rows differ from what was written");
        // The policy map is read again as well: whoever changed the rows may have changed it.
        self.known = Some(seen);
        let reason = Arc::from("datapath differs from what was written");
        self.trigger(cx, Trigger::new(Level::Rewrite, reason, Vec::new()));
    }
}
