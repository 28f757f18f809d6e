//! What an operator asks of the agent: endpoints with fresh programs, and backends that are kept from new
//! connections or released.

use volvox_actors_simulated::{
    endpoints::{
        endpoint::Level,
        supervisor::{EndpointReference, EndpointsMsg},
    },
    host::Reply,
    services::service_cache::ServicesMsg,
};

use super::{
    node::Node,
    requests::{QuarantineRequest, Regenerated},
};
use crate::model::service_members::{BACKENDS, place};

impl Node {
    /// An endpoint is to be regenerated with fresh programs.
    pub(crate) fn regenerate(&mut self, number: u8) {
        let endpoint = self.oracle.borrow().expected.pods.get(&number).and_then(|it| it.endpoint);
        let (true, Some(id)) = (self.world.is_alive(), endpoint) else { return };
        let loads = self.world.kernel.with(|state| state.loads);
        let request = |level| {
            move |reply: Reply<Regenerated>| EndpointsMsg::Regenerate {
                target: EndpointReference::Id(id),
                level,
                reason: "asked for".into(),
                reply,
            }
        };
        // Two at once: the second is as much of a wish as the first.
        let endpoints = self.world.node_supervisor().endpoints.clone();
        drop(self.world.pose(&endpoints, request(Level::Rewrite)));
        let answer = self.world.pose(&endpoints, request(Level::Rebuild));
        self.requests.regenerations.push((loads, answer));
    }

    /// Endpoints that were to have fresh programs have them.
    pub(super) fn regenerated(&mut self) {
        let loads = self.world.kernel.with(|state| state.loads);
        let mut open = Vec::new();
        for (before, mut answer) in std::mem::take(&mut self.requests.regenerations) {
            match answer.now() {
                None => open.push((before, answer)),
                Some(Ok(Ok(view))) if loads == before => {
                    self.wrong(format!("endpoint {} was to have fresh programs", view.id));
                }
                Some(_) => {}
            }
        }
        self.requests.regenerations = open;
    }

    /// An operator asks for a backend to be quarantined or released.
    pub(crate) fn quarantine(&mut self, backend: u8, desired: bool) {
        if !self.world.is_alive() || backend >= BACKENDS {
            return;
        }
        self.oracle.borrow_mut().services.quarantine.forget(backend);
        let services = self.world.node_supervisor().services.clone();
        let answer = self.world.pose(&services, |reply| ServicesMsg::Quarantine {
            backend: place(backend),
            desired,
            reply,
        });
        self.requests.quarantine.push((backend, desired, answer));
    }

    /// Takes in what was granted: it is in force by then.
    pub(crate) fn granted(&mut self) {
        let mut open: Vec<QuarantineRequest> = Vec::new();
        let all = std::mem::take(&mut self.requests.quarantine);
        let mut later: Vec<u8> = all.iter().map(|(backend, ..)| *backend).collect();
        for (backend, desired, mut answer) in all {
            later.remove(0);
            match answer.now() {
                None => open.push((backend, desired, answer)),
                Some(Ok(Ok(()))) if !later.contains(&backend) => {
                    let checks = &mut self.oracle.borrow_mut().services;
                    if checks.expected.steady() >> backend & 1 == 1 {
                        checks.quarantine.granted(backend, desired);
                    }
                }
                Some(_) => {}
            }
        }
        self.requests.quarantine = open;
        let oracle = self.oracle.borrow();
        let wrong =
            self.world.kernel.with(|state| oracle.services.quarantine.wrong(&state.services));
        drop(oracle);
        if let Some(wrong) = wrong {
            self.wrong(wrong);
        }
    }
}
