//! Backends that an operator keeps from new connections, or releases.

use std::collections::BTreeMap;

use volvox_actors_simulated::{
    host::Answer,
    ports::BackendState,
    services::service_cache::{ServicesMsg, UnknownBackend},
    testing::KernelServices,
};

use super::{
    members::{BACKENDS, place},
    node::Node,
};

/// Requests whose answers have not come, oldest first.
pub(super) type Asked = Vec<(u8, bool, Answer<Result<(), UnknownBackend>>)>;

/// What is sure of each backend: what was asked for last and granted, while it was listed all the
/// time.
#[derive(Default)]
pub(super) struct Quarantine(BTreeMap<u8, bool>);

impl Quarantine {
    /// Of these only it is sure still.
    pub(super) fn keep(&mut self, steady: u8) {
        self.0.retain(|backend, _| steady >> backend & 1 == 1);
    }

    /// What is otherwise in the kernel.
    pub(super) fn wrong(&self, services: &KernelServices) -> Option<String> {
        let is_other = |(backend, desired): &(&u8, &bool)| {
            let row = services.backends.values().find(|row| row.at == place(**backend));
            row.is_some_and(|row| row.state == BackendState::Quarantined) != **desired
        };
        let (backend, desired) = self.0.iter().find(is_other)?;
        let what = if *desired { "quarantined" } else { "released" };
        Some(format!("backend {} was {what}, and is not", place(*backend)))
    }
}

impl Node {
    /// An operator asks for a backend to be quarantined or released.
    pub(super) fn quarantine(&mut self, backend: u8, desired: bool) {
        if !self.world.is_alive() || backend >= BACKENDS {
            return;
        }
        self.oracle.borrow_mut().served.quarantine.0.remove(&backend);
        let services = self.world.node_supervisor().services.clone();
        let answer = self.world.pose(&services, |reply| ServicesMsg::Quarantine {
            backend: place(backend),
            desired,
            reply,
        });
        self.asked.push((backend, desired, answer));
    }

    /// Takes in what was granted: it is in force by then.
    pub(super) fn granted(&mut self) {
        let mut open: Asked = Vec::new();
        let all = std::mem::take(&mut self.asked);
        let mut later: Vec<u8> = all.iter().map(|(backend, ..)| *backend).collect();
        for (backend, desired, mut answer) in all {
            later.remove(0);
            match answer.now() {
                None => open.push((backend, desired, answer)),
                Some(Ok(Ok(()))) if !later.contains(&backend) => {
                    let served = &mut self.oracle.borrow_mut().served;
                    if served.steady() >> backend & 1 == 1 {
                        served.quarantine.0.insert(backend, desired);
                    }
                }
                Some(_) => {}
            }
        }
        self.asked = open;
        let oracle = self.oracle.borrow();
        let wrong = self.world.kernel.with(|state| oracle.served.quarantine.wrong(&state.services));
        drop(oracle);
        if let Some(wrong) = wrong {
            self.wrong(wrong);
        }
    }
}
