//! What somebody else takes away at a pod's interface: the agent says so, or puts it back.

use std::{sync::Arc, time::Duration};

use volvox_actors_simulated::{
    endpoints::{endpoint::EndpointView, supervisor::EndpointsMsg},
    ports::{HookState, Intruder, Notices},
};

use crate::{history::events::Removal, world::node::Node};

impl Node {
    /// Somebody takes something from a pod. The kernel says it, where it says such things, then somebody
    /// asks. The endpoints as they were before, if that was answered: whoever is called ready is then to
    /// be served.
    pub(crate) fn remove_from_pod(
        &mut self,
        number: u8,
        what: Removal,
        seed: u64,
    ) -> Option<Vec<Arc<EndpointView>>> {
        let subject = self.oracle.borrow().expected.pods.get(&number).cloned();
        let (subject, id) = subject.and_then(|it| Some((it.clone(), it.endpoint?)))?;
        let ifindex = subject.ifindex;
        let mut notices = Notices::default();
        match what {
            Removal::Routes => {
                self.world.kernel.tamper(|state| state.rows.routes.retain(|_, to| *to != ifindex));
                notices.addresses.extend(subject.addresses.iter());
            }
            Removal::FirstPlace => self.world.kernel.tamper(|state| {
                let intruder = Intruder { program: 1, name: *b"somebody\0\0\0\0\0\0\0\0" };
                if let Some(at) = state.rows.attachments.get_mut(&id)
                    && at.from_container != HookState::Empty
                {
                    at.from_container = HookState::Behind(intruder);
                }
            }),
            Removal::Interface => {
                self.unplug(number);
                notices.links.insert(ifindex, None);
            }
        }
        if !self.world.is_alive() {
            return None;
        }
        let endpoints = self.world.node_supervisor().endpoints.clone();
        if notices != Notices::default() {
            let _ = endpoints.tell(EndpointsMsg::Disturbed(notices));
            self.time(Duration::from_millis(20), seed);
        }
        if !self.world.is_alive() {
            return None;
        }
        let before = self.world.list();
        let endpoints = self.world.node_supervisor().endpoints.clone();
        let ask = |reply| EndpointsMsg::Verify { target: None, reply };
        let mut asked = self.world.pose(&endpoints, ask);
        self.time(Duration::from_millis(20), seed);
        let heard = asked.now().is_some_and(|answer| answer.is_ok());
        (heard && self.world.is_alive() && !self.faults.failing).then_some(before)
    }
}
