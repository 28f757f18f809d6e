//! Backends that an operator keeps from new connections: what of them is sure.

use std::collections::BTreeMap;

use volvox_actors_simulated::{ports::BackendState, testing::KernelServices};

use crate::model::service_members::place;

/// What is sure of each backend: what was asked for last and granted, while it was listed all the
/// time.
#[derive(Default)]
pub(crate) struct Quarantine(BTreeMap<u8, bool>);

impl Quarantine {
    /// It was asked to be so, and that was granted.
    pub(crate) fn granted(&mut self, backend: u8, desired: bool) {
        self.0.insert(backend, desired);
    }

    /// Something else is asked of it: nothing is sure.
    pub(crate) fn forget(&mut self, backend: u8) {
        self.0.remove(&backend);
    }

    /// Of these only it is sure still.
    pub(crate) fn keep(&mut self, steady: u8) {
        self.0.retain(|backend, _| steady >> backend & 1 == 1);
    }

    /// What is otherwise in the kernel.
    pub(crate) fn wrong(&self, services: &KernelServices) -> Option<String> {
        let is_other = |(backend, desired): &(&u8, &bool)| {
            let row = services.backends.values().find(|row| row.at == place(**backend));
            row.is_some_and(|row| row.state == BackendState::Quarantined) != **desired
        };
        let (backend, desired) = self.0.iter().find(is_other)?;
        let what = if *desired { "quarantined" } else { "released" };
        Some(format!("backend {} was {what}, and is not", place(*backend)))
    }
}
