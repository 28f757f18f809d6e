//! Limits of how often and how many at a time the endpoint calls of the API may be made.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use axum::http::StatusCode;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, sleep_until, timeout_at},
};
use volvox_inspect::http::ApiError;

use crate::config::{RateLimit, RateLimits};

/// Calls that can be limited, by Cilium's names.
pub(super) mod call {
    pub(in crate::api) const CREATE: &str = "endpoint-create";
    pub(in crate::api) const DELETE: &str = "endpoint-delete";
    pub(in crate::api) const GET: &str = "endpoint-get";
    pub(in crate::api) const LIST: &str = "endpoint-list";
    pub(in crate::api) const PATCH: &str = "endpoint-patch";
}

/// Holds calls to their limits; a call without one passes.
#[derive(Debug, Default)]
pub struct Limiter(BTreeMap<String, Limit>);

#[derive(Debug)]
struct Limit {
    rule: RateLimit,
    parallel: Option<Arc<Semaphore>>,
    /// When the next call is due if calls come without pause (GCRA's theoretical arrival time).
    due: Mutex<Instant>,
}

/// The right to make a call; it ends with the call.
#[derive(Debug)]
pub(super) struct Passage {
    _parallel: Option<OwnedSemaphorePermit>,
}

impl Limiter {
    /// Holds calls to these limits.
    pub fn new(limits: &RateLimits) -> Self {
        let limit = |rule: RateLimit| Limit {
            rule,
            parallel: rule.parallel.map(|parallel| Arc::new(Semaphore::new(parallel as usize))),
            due: Mutex::new(Instant::now()),
        };
        Self(limits.0.iter().map(|(call, rule)| (call.clone(), limit(*rule))).collect())
    }

    /// Waits until the call may be made; 429 if that would take too long.
    pub(super) async fn pass(&self, call: &str) -> Result<Passage, ApiError> {
        match self.0.get(call) {
            Some(limit) => limit.pass().await.ok_or_else(|| too_many(call)),
            None => Ok(Passage { _parallel: None }),
        }
    }
}

impl Limit {
    async fn pass(&self) -> Option<Passage> {
        let latest = self.rule.max_wait.map(|wait| Instant::now() + wait);
        let parallel = match &self.parallel {
            None => None,
            Some(parallel) => {
                let permit = Arc::clone(parallel).acquire_owned();
                let permit = match latest {
                    Some(latest) => timeout_at(latest, permit).await.ok()?,
                    None => permit.await,
                };
                Some(permit.ok()?)
            }
        };
        if let Some(at) = self.reserve(latest)? {
            sleep_until(at).await;
        }
        Some(Passage { _parallel: parallel })
    }

    /// The moment that the call may be made, by its rate; none if that is too late.
    fn reserve(&self, latest: Option<Instant>) -> Option<Option<Instant>> {
        let Some(per_second) = self.rule.per_second else { return Some(None) };
        let step = Duration::from_secs_f64(1.0 / per_second);
        // The first calls of a burst are made ahead of their time.
        let ahead = step * self.rule.burst.unwrap_or(1).saturating_sub(1);
        let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let wait = due.max(now).duration_since(now).saturating_sub(ahead);
        if latest.is_some_and(|latest| now + wait > latest) {
            return None;
        }
        *due = due.max(now) + step;
        Some((!wait.is_zero()).then(|| now + wait))
    }
}

fn too_many(call: &str) -> ApiError {
    ApiError::new(
        StatusCode::TOO_MANY_REQUESTS,
        format!("too many requests of {call} (--api-rate-limit): try again later"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(text: &str, test: impl AsyncFnOnce(Limiter)) {
        let limiter = Limiter::new(&text.parse().unwrap());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(test(limiter));
    }

    #[test]
    fn refuses_what_would_wait_too_long() {
        run("endpoint-create=rate-limit:1/1h,rate-burst:2,max-wait-duration:1s", async |limiter| {
            for _ in 0..2 {
                limiter.pass(call::CREATE).await.unwrap();
            }
            let refused = limiter.pass(call::CREATE).await.unwrap_err();
            assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS);
            limiter.pass(call::GET).await.unwrap();
        });
    }

    #[test]
    fn so_many_at_a_time() {
        run("endpoint-delete=parallel-requests:1,max-wait-duration:1ms", async |limiter| {
            let first = limiter.pass(call::DELETE).await.unwrap();
            assert!(limiter.pass(call::DELETE).await.is_err());
            drop(first);
            assert!(limiter.pass(call::DELETE).await.is_ok());
        });
    }
}
