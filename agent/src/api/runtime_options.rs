//! Options of all endpoints and when they are held to policy, as both can be changed while the agent runs. The handlers bring a
//! change to the endpoints that exist.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex as Cell, PoisonError},
    time::Duration,
};

use axum::http::StatusCode;
use tokio::{
    sync::{Mutex, OwnedMutexGuard, Semaphore},
    time::timeout,
};
use volvox_actors::policy::rules::Enforcement;
use volvox_inspect::http::ApiError;

/// How many changes may wait for their turn.
const WAITING_MAX: usize = 16;
/// How long a change waits for its turn: less than clients wait for the answer.
const TURN_PATIENCE: Duration = Duration::from_secs(30);

/// Options of every endpoint, as `PATCH /config` last set them. As in Cilium they go with the agent:
/// at its next start its flags count again. What was set for one endpoint alone stays with that one.
#[derive(Debug)]
pub struct RuntimeOptions {
    now: Cell<BTreeMap<String, i64>>,
    enforcement: Cell<Enforcement>,
    turn: Arc<Mutex<()>>,
    places: Semaphore,
}

/// The right to change the configuration; others wait until it is dropped.
pub(super) type Turn = OwnedMutexGuard<()>;

impl RuntimeOptions {
    /// The options that the agent was started with, and when it holds endpoints to policy.
    pub fn new(options: BTreeMap<String, i64>, enforcement: Enforcement) -> Self {
        Self {
            now: Cell::new(options),
            enforcement: Cell::new(enforcement),
            turn: Arc::default(),
            places: Semaphore::new(WAITING_MAX),
        }
    }

    /// When endpoints are held to policy.
    pub(super) fn enforcement(&self) -> Enforcement {
        *self.enforcement.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// They are held to it at other times.
    pub(super) fn set_enforcement(&self, enforcement: Enforcement) {
        *self.enforcement.lock().unwrap_or_else(PoisonError::into_inner) = enforcement;
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

    /// Waits until no other change is under way. Who came first is first; who goes away gives up his
    /// place.
    pub(super) async fn turn(&self) -> Result<Turn, ApiError> {
        self.turn_within(TURN_PATIENCE).await
    }

    async fn turn_within(&self, patience: Duration) -> Result<Turn, ApiError> {
        if let Ok(turn) = Arc::clone(&self.turn).try_lock_owned() {
            return Ok(turn);
        }
        let Ok(_place) = self.places.try_acquire() else {
            let text = format!(
                "{WAITING_MAX} changes of the configuration wait already, and this one is not \
                 made: try again later"
            );
            return Err(ApiError::new(StatusCode::TOO_MANY_REQUESTS, text));
        };
        timeout(patience, Arc::clone(&self.turn).lock_owned()).await.map_err(|_| {
            ApiError::unavailable(format!(
                "changes of the configuration before this one take longer than {patience:?}, and \
                 this one is not made: try again later"
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use tokio::task::{JoinSet, yield_now};

    use super::*;

    fn run(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(test);
    }

    #[test]
    fn changes_are_made_one_after_the_other_in_their_order() {
        run(async {
            let options = Arc::new(RuntimeOptions::new(BTreeMap::new(), Enforcement::Default));
            let first = options.turn().await.unwrap();
            let order = Arc::new(Cell::new(Vec::new()));
            let mut waiting = JoinSet::new();
            for number in 0..3 {
                let (options, order) = (Arc::clone(&options), Arc::clone(&order));
                waiting.spawn(async move {
                    let _turn = options.turn().await.unwrap();
                    order.lock().unwrap().push(number);
                });
                yield_now().await;
            }
            assert!(order.lock().unwrap().is_empty(), "the first is not done");
            drop(first);
            waiting.join_all().await;
            assert_eq!(*order.lock().unwrap(), [0, 1, 2]);
        });
    }

    #[test]
    fn a_full_queue_refuses_at_once_and_a_long_wait_ends() {
        run(async {
            let options = Arc::new(RuntimeOptions::new(BTreeMap::new(), Enforcement::Default));
            let held = options.turn().await.unwrap();
            let mut waiting = JoinSet::new();
            for _ in 0..WAITING_MAX {
                let options = Arc::clone(&options);
                let patience = Duration::from_millis(50);
                waiting.spawn(async move { options.turn_within(patience).await.map(drop) });
                yield_now().await;
            }
            let refused = options.turn().await.unwrap_err();
            assert_eq!(refused.status, 429, "{refused:?}");
            for waited in waiting.join_all().await {
                assert_eq!(waited.unwrap_err().status, 503);
            }
            drop(held);
            assert!(options.turn().await.is_ok(), "all places are free again");
        });
    }
}
