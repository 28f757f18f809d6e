//! Flows for the dashboard: those that are kept, those that come, and one of them whole. It reads the ring,
//! and keeps nothing of its own; while nobody looks there is nothing to do.

mod live;
mod shown;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use axum::{
    Router,
    extract::{Path, Query, State},
    routing::get,
};
use prost::Message;
use serde::{Deserialize, Serialize};
use volvox_inspect::http::{Answer, ApiError, ok};

use self::shown::{Shown, moment};
use crate::{filter::Words, json::to_json, observer::Observer, ring::Content, schema::FLOW};

/// Flows in one answer, unless asked otherwise, and at most.
const FLOWS: usize = 500;
const FLOWS_MAX: usize = 5_000;

/// What the page asks, below its `/api`.
pub fn flows_router(observer: Arc<Observer>) -> Router {
    Router::new()
        .route("/flows", get(kept))
        .route("/flows/live", get(live::get))
        .route("/flows/{number}", get(whole))
        .with_state(observer)
}

/// The same where no flows are kept: it says what to do about it.
pub fn no_flows_router(why: &'static str) -> Router {
    let none = move || async move { ok(&NoFlows { none: why }) };
    Router::new().route("/flows", get(none))
}

/// There are no flows, and why.
#[derive(Debug, Serialize)]
struct NoFlows {
    none: &'static str,
}

/// Which of those that are kept. Moments are microseconds since 1970.
#[derive(Debug, Deserialize)]
struct Asked {
    /// [`Words`].
    #[serde(default)]
    filter: String,
    since: Option<u64>,
    until: Option<u64>,
    limit: Option<usize>,
}

#[derive(Debug, Serialize)]
struct Kept {
    /// The newest that are asked for, oldest first.
    flows: Vec<Shown>,
    /// Whether older ones are asked for as well, and not among them.
    more: bool,
    /// When the oldest record that is kept was read.
    oldest: Option<u64>,
    /// Records that are kept, and for how many there is room.
    records: u64,
    capacity: u64,
    /// Number of the next record.
    next: u64,
}

fn words(filter: &str) -> Result<Words, ApiError> {
    Words::parse(filter).map_err(ApiError::bad_request)
}

/// Flows that are kept. Names are made fresh before.
async fn kept(State(observer): State<Arc<Observer>>, Query(asked): Query<Asked>) -> Answer {
    let words = words(&asked.filter)?;
    observer.freshen().await;
    let read = tokio::task::spawn_blocking(move || read(&observer, &words, &asked)).await;
    ok(&read.map_err(|error| ApiError::failed(format!("reading flows broke off: {error}")))?)
}

fn read(observer: &Observer, words: &Words, asked: &Asked) -> Kept {
    let ring = observer.ring();
    let (oldest, next) = ring.bounds();
    let limit = asked.limit.unwrap_or(FLOWS).min(FLOWS_MAX);
    let (mut flows, mut more) = (Vec::new(), false);
    for number in (oldest..next).rev() {
        let Some(stored) = ring.get(number) else { continue };
        let at = moment(stored.time);
        if asked.until.is_some_and(|until| at > until) {
            continue;
        }
        if asked.since.is_some_and(|since| at < since) {
            break;
        }
        let Some(shown) = Shown::of(observer, &stored, words) else { continue };
        if flows.len() >= limit {
            more = true;
            break;
        }
        flows.push(shown);
    }
    flows.reverse();
    let first = (oldest..next).find_map(|number| ring.time(number));
    let capacity = ring.capacity();
    Kept { flows, more, oldest: first.map(moment), records: next - oldest, capacity, next }
}

/// A flow with all that is known of it, as Hubble's API tells it.
async fn whole(State(observer): State<Arc<Observer>>, Path(number): Path<u64>) -> Answer {
    let gone = || {
        let text =
            format!("flow {number}: it is overwritten; --hubble-event-buffer-capacity keeps more");
        ApiError::not_found(text)
    };
    let stored = observer.ring().get(number).ok_or_else(gone)?;
    if let Content::Lost { .. } = stored.content {
        return Err(ApiError::not_found(format!(
            "flow {number}: it tells of lost ones, and is none"
        )));
    }
    let decoded = observer.decode(&stored).ok_or_else(gone)?;
    ok(&to_json(&FLOW, &decoded.flow.encode_to_vec()))
}
