//! The life that is being lived, as server-sent events: batches of what was recorded meanwhile.

use std::sync::{Arc, LazyLock};

use axum::{
    extract::{Query, State},
    response::Response,
};
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;
use volvox_actors::host::flight::{Event, Flight};

use super::Lives;
use crate::http::{ApiError, Beat, event_stream};

/// Events in one batch; more follow at the next beat.
const BATCH_EVENTS_MAX: usize = 5_000;
/// How many may watch at a time; each is read for by itself.
const WATCHERS_MAX: usize = 8;

static WATCHERS: LazyLock<Arc<Semaphore>> =
    LazyLock::new(|| Arc::new(Semaphore::new(WATCHERS_MAX)));

#[derive(Debug, Deserialize)]
pub(super) struct Asked {
    /// Only events with a number above this.
    #[serde(default)]
    after: u64,
    /// Number of the life that `after` belongs to.
    life: u64,
}

#[derive(Serialize)]
struct Batch<'a> {
    events: &'a [Event],
    /// Events that were overwritten before they were read.
    lost: u64,
}

pub(super) async fn get(
    State(lives): State<Arc<Lives>>,
    Query(asked): Query<Asked>,
) -> Result<Response, ApiError> {
    if !matches!(*lives, Lives::Agent(_)) {
        return Err(ApiError::not_found("nothing is live here: these are files"));
    }
    let permit = Arc::clone(&WATCHERS).try_acquire_owned().map_err(|_| {
        ApiError::unavailable(format!("{WATCHERS_MAX} pages are watching already: close one"))
    })?;
    let mut after = asked.after;
    Ok(event_stream(permit, move || {
        // Another life, or no record any more: the page asks anew.
        let Some((beat, last)) = batch(&lives, asked.life, after) else { return Beat::end("life") };
        after = after.max(last);
        beat
    }))
}

/// The next batch, and the number of its last event.
fn batch(lives: &Lives, life: u64, after: u64) -> Option<(Beat, u64)> {
    let Flight { life: found, events } = lives.current(after, BATCH_EVENTS_MAX)?.ok()?;
    if found.number != life {
        return None;
    }
    let Some(last) = events.last().map(|event| event.seq) else {
        return Some((Beat::Nothing, after));
    };
    let lost = (last - after).saturating_sub(events.len() as u64);
    Some((Beat::json("batch", &Batch { events: &events, lost }), last))
}
