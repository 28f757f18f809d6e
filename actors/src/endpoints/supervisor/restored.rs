//! How restored endpoints come back: all are spawned first, then each is told to regenerate.

use std::{collections::BTreeSet, rc::Rc, sync::Arc};

use super::{
    Endpoints, EndpointsMsg,
    child::SupervisedEndpoint,
    state::{EndpointsState, Outcomes},
};
use crate::{
    endpoints::{
        actor_name::actor_name,
        endpoint::{Endpoint, EndpointState, EndpointView, RestoredEndpoint},
        workloads::WorkloadsMsg,
    },
    host::{Cx, Reply},
    model::EndpointId,
};

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
            let name = actor_name(id, &restored.spec);
            let maker = Endpoint::restorer(Rc::clone(&self.peers), restored);
            let address = cx.host().spawn(name, self.schedule.queue, maker);
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
