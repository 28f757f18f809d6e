//! `/api/flight`: a part of the events of one life, as JSON.

use std::sync::Arc;

use axum::extract::{Query, State};
use serde::Deserialize;
use volvox_actors::host::flight::Flight;

use super::Lives;
use crate::http::{Answer, ApiError, ok};

/// Events in one answer, unless asked otherwise, and at most.
const EVENTS: usize = 5_000;
const EVENTS_MAX: usize = 50_000;

#[derive(Debug, Deserialize)]
pub(super) struct Asked {
    /// Which life.
    life: String,
    /// Only events with a number above this.
    #[serde(default)]
    after: u64,
    /// How many events at most.
    limit: Option<usize>,
}

/// Events of a life, oldest first.
pub(super) async fn get(State(lives): State<Arc<Lives>>, Query(asked): Query<Asked>) -> Answer {
    let read = move || -> Result<Flight, ApiError> {
        let missing = || {
            let what = format!("life: there is no {:?}: GET /api/lives lists them", asked.life);
            ApiError::not_found(what)
        };
        let limit = asked.limit.unwrap_or(EVENTS).min(EVENTS_MAX);
        Ok(lives.read(&asked.life, asked.after, limit).ok_or_else(missing)??)
    };
    ok(&tokio::task::spawn_blocking(read).await.map_err(broken)??)
}

/// Whoever was reading panicked.
pub(super) fn broken(error: tokio::task::JoinError) -> ApiError {
    ApiError::failed(format!("reading the record broke off: {error}"))
}
