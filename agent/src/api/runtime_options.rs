//! Options of all endpoints, as they can be changed while the agent runs. The handlers bring a
//! change to the endpoints that exist.

use std::{
    collections::BTreeMap,
    sync::{Mutex as Cell, PoisonError},
};

use tokio::sync::{Mutex, MutexGuard};

/// Options of every endpoint, as `PATCH /config` last set them. As in Cilium they go with the agent:
/// at its next start its flags count again. What was set for one endpoint alone stays with that one.
#[derive(Debug, Default)]
pub struct RuntimeOptions {
    now: Cell<BTreeMap<String, i64>>,
    turn: Mutex<()>,
}

impl RuntimeOptions {
    /// The options that the agent was started with.
    pub fn new(options: BTreeMap<String, i64>) -> Self {
        Self { now: Cell::new(options), turn: Mutex::default() }
    }

    /// The options as they are.
    pub(super) fn now(&self) -> BTreeMap<String, i64> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Those that a new endpoint does not have by itself.
    pub(super) fn beyond(&self, flags: &BTreeMap<String, i64>) -> BTreeMap<String, i64> {
        let mut options = self.now();
        options.retain(|name, value| flags.get(name) != Some(value));
        options
    }

    /// Changes some of them.
    pub(super) fn set(&self, changed: &BTreeMap<String, i64>) {
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        now.extend(changed.iter().map(|(name, value)| (name.clone(), *value)));
    }

    /// Waits until no other change is under way.
    pub(super) async fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().await
    }
}
