//! How restored endpoints come back: all are spawned first, then each is told to regenerate.

use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
    sync::Arc,
};

use super::{Endpoints, EndpointsMsg, actor::EndpointsState, child::SupervisedEndpoint};
use crate::{
    endpoints::{
        endpoint::{Endpoint, EndpointState, EndpointView, RestoredEndpoint},
        workloads::WorkloadsMsg,
    },
    host::{Cx, Reply},
    model::EndpointId,
};

/// How each restored endpoint fared.
type Outcomes = BTreeMap<EndpointId, Result<(), Arc<str>>>;

/// Restored endpoints on their way back.
#[derive(Default)]
pub(super) struct Restoring {
    /// Every restored endpoint is spawned: new ones may be made, and any may be deleted.
    pub(super) known: bool,
    pending: BTreeSet<EndpointId>,
    outcomes: Outcomes,
    reply: Option<Reply<Outcomes>>,
}

impl Restoring {
    /// An endpoint changed: a restored one has settled once a build of it has ended.
    pub(super) fn seen(&mut self, view: &EndpointView) {
        if view.state == EndpointState::Ready && self.pending.remove(&view.id) {
            let outcome = match (&view.last_error, view.failing) {
                (Some(error), true) => Err(Arc::clone(error)),
                _ => Ok(()),
            };
            self.outcomes.insert(view.id, outcome);
            self.answer();
        }
    }

    /// Restored endpoints that have not settled.
    pub(super) fn pending(&self) -> &BTreeSet<EndpointId> {
        &self.pending
    }

    pub(super) fn gone(&mut self, id: EndpointId) {
        if self.pending.remove(&id) {
            self.outcomes.insert(id, Err(Arc::from("deleted while it was restored")));
            self.answer();
        }
    }

    fn answer(&mut self) {
        if self.pending.is_empty()
            && let Some(reply) = self.reply.take()
        {
            reply.send(std::mem::take(&mut self.outcomes));
        }
    }
}

impl Endpoints {
    pub(super) fn restore(
        &mut self,
        cx: &mut Cx<'_, Self>,
        endpoints: Vec<RestoredEndpoint>,
        withheld: &BTreeSet<EndpointId>,
        host: bool,
        reply: Reply<()>,
    ) {
        for &id in withheld {
            self.family.numbers.take_restored(id);
        }
        for restored in endpoints {
            let id = restored.id;
            if self.family.restoring.known && self.family.children.contains_key(&id) {
                continue;
            }
            if !self.family.numbers.take_restored(id) {
                tracing::error!(endpoint = %id, "two restored endpoints have this number");
                continue;
            }
            let view = Arc::new(EndpointView::seed(id, &restored.spec, EndpointState::Restoring));
            let slot = restored.config.map(|row| row.policy_slot);
            let left = restored.policy.clone();
            let maker = Endpoint::restorer(Rc::clone(&self.peers), restored);
            let address = cx.host().spawn(format!("endpoint {id}"), self.schedule.queue, maker);
            self.family.restoring.pending.insert(id);
            self.family.children.insert(id, SupervisedEndpoint::new(address, view, slot, left));
        }
        let first = !std::mem::replace(&mut self.family.restoring.known, true);
        self.family.host = host;
        self.make_host(cx);
        let EndpointsState { barriers, restoring, .. } = &mut *self.family;
        barriers.restored(&restoring.pending);
        self.look_for_overdue(cx);
        for held in std::mem::take(&mut self.held) {
            // It came from this very mailbox, which has room for what was just taken out.
            let _ = cx.me().tell(held);
        }
        if first {
            self.sweep_later(cx);
            // Not before there is somebody to hear what changed while no agent lived.
            if let Err(refused) = self
                .workloads
                .tell(WorkloadsMsg::Subscribe(cx.me().outlet(EndpointsMsg::Workloads)))
            {
                tracing::error!(%refused, "changes of pods are not heard of");
            }
        }
        reply.send(());
    }

    pub(super) fn regenerate_restored(&mut self, reply: Reply<Outcomes>) {
        let EndpointsState { restoring, children, .. } = &mut *self.family;
        restoring.reply = Some(reply);
        for id in &restoring.pending {
            if let Some(child) = children.get_mut(id) {
                child.restore();
            }
        }
        restoring.answer();
    }
}
