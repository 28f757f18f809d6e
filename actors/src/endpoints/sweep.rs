//! The supervisor's round: what the kernel shows against what was written, and vanished interfaces.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use super::{Endpoints, EndpointsMsg, Schedule};
use crate::{
    auditor::AuditorMsg,
    endpoint::{EndpointMsg, State},
    host::{AskError, Cx, Reply},
    model::EndpointId,
    ports::{KernelDone, KernelJob, KernelOp, KernelOutcome, KernelSnapshot, OwnedRows},
};

const PATIENCE: Duration = Duration::from_secs(30);

impl Endpoints {
    /// Sets the time of the next look; none if looking is switched off.
    pub(super) fn sweep_later(&self, cx: &mut Cx<'_, Self>) {
        let Schedule { sweep, collect, .. } = self.schedule;
        if let Some(wait) = [sweep, collect].into_iter().filter(|span| !span.is_zero()).min() {
            cx.after(wait, EndpointsMsg::Sweep);
        }
    }

    pub(super) fn sweep(&mut self, cx: &mut Cx<'_, Self>) {
        self.sweep_later(cx);
        for child in self.family.children.values_mut() {
            child.pay();
        }
        self.make_host(cx);
        self.look(cx);
    }

    /// Asks the kernel what it shows, unless that is under way.
    pub(super) fn look(&mut self, cx: &mut Cx<'_, Self>) {
        if std::mem::replace(&mut self.sweeping, true) {
            return;
        }
        self.looked = cx.now();
        let newest = self.family.revision;
        self.seen = self.family.children.values().map(|child| child.shown(newest)).collect();
        let reply = cx.expect("kernel", PATIENCE, "a look at the kernel", EndpointsMsg::Swept);
        self.peers.kernel.submit(KernelJob::new(vec![KernelOp::Snapshot]), reply);
    }

    pub(super) fn swept(&mut self, cx: &mut Cx<'_, Self>, answer: Result<KernelDone, AskError>) {
        self.sweeping = false;
        let before = std::mem::take(&mut self.seen);
        let snapshot = match answer {
            Ok(KernelDone { outcomes, failed: None }) => outcomes.into_iter().next(),
            Ok(KernelDone { failed: Some((_, error)), .. }) => {
                tracing::warn!(%error, "the kernel could not be compared");
                None
            }
            Err(error) => {
                tracing::warn!(%error, "the kernel could not be compared");
                None
            }
        };
        let Some(KernelOutcome::Snapshot(snapshot)) = snapshot else { return };
        let snapshot: Arc<KernelSnapshot> = Arc::from(snapshot);
        if !self.schedule.sweep.is_zero() {
            let rows = Arc::new(OwnedRows::of(&snapshot));
            for child in self.family.children.values() {
                let (snapshot, rows) = (Arc::clone(&snapshot), Arc::clone(&rows));
                // One that is busy is compared the next time.
                let _ =
                    child.address.tell(EndpointMsg::Audit { snapshot, rows, asked: self.looked });
            }
        }
        let looked = AuditorMsg::Look { before, kernel: Arc::clone(&snapshot) };
        if let Err(refused) = self.auditor.tell(looked) {
            tracing::warn!(%refused, "what the kernel shows is not audited");
        }
        let Schedule { collect, .. } = self.schedule;
        if !collect.is_zero() && cx.now().since(self.collected) >= collect {
            self.collected = cx.now();
            self.collect(&snapshot);
        }
    }

    /// Removes endpoints whose interface is gone for the second time.
    fn collect(&mut self, snapshot: &KernelSnapshot) {
        let gone: BTreeSet<EndpointId> = self
            .family
            .children
            .iter()
            .filter(|(_, child)| {
                child.view.state.may_become(State::Disconnecting)
                    && !child.view.spec.is_among(&snapshot.links)
            })
            .map(|(&id, _)| id)
            .collect();
        for id in gone.intersection(&self.vanished) {
            if let Some(child) = self.family.children.get(id) {
                tracing::warn!(endpoint = %id, "interface is gone; endpoint is removed");
                let _ = child.address.tell(EndpointMsg::Delete { reply: Reply::to(|_| {}) });
            }
        }
        self.vanished = gone;
    }
}
