//! Flows as they come, as server-sent events.

use std::sync::{Arc, LazyLock};

use axum::{
    extract::{Query, State},
    response::Response,
};
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;
use volvox_inspect::http::{ApiError, Beat, event_stream};

use super::{shown::Shown, words};
use crate::{filter::Words, messages::now, observer::Observer};

/// Flows in one beat: more than the page draws of a beat. What comes quicker is counted.
const BEAT_FLOWS_MAX: usize = 1_000;
/// How many may follow at a time; each is read for by itself.
const FOLLOWERS_MAX: usize = 8;
/// How long a flow waits for the name of a new endpoint, nanoseconds.
const NAME_PATIENCE: u64 = 400_000_000;

static FOLLOWERS: LazyLock<Arc<Semaphore>> =
    LazyLock::new(|| Arc::new(Semaphore::new(FOLLOWERS_MAX)));

/// Which of those that come.
#[derive(Debug, Deserialize)]
pub(super) struct Asked {
    /// [`Words`].
    #[serde(default)]
    filter: String,
    /// Number of the first record; without it, what comes from now on.
    from: Option<u64>,
}

#[derive(Debug, Serialize)]
struct Batch {
    flows: Vec<Shown>,
    /// Records that were overwritten, or passed over because too many came at once.
    missed: u64,
    /// Number of the next record.
    next: u64,
}

pub(super) async fn get(
    State(observer): State<Arc<Observer>>,
    Query(asked): Query<Asked>,
) -> Result<Response, ApiError> {
    let words = words(&asked.filter)?;
    let permit = Arc::clone(&FOLLOWERS).try_acquire_owned().map_err(|_| {
        ApiError::unavailable(format!("{FOLLOWERS_MAX} pages follow flows already: close one"))
    })?;
    observer.freshen().await;
    let mut at = asked.from.unwrap_or_else(|| observer.ring().bounds().1);
    Ok(event_stream(permit, move || {
        let batch = batch(&observer, &words, &mut at);
        match batch.flows.is_empty() && batch.missed == 0 {
            true => Beat::Nothing,
            false => Beat::json("flows", &batch),
        }
    }))
}

/// What came since the record numbered `at`, which is set to the next one.
fn batch(observer: &Observer, words: &Words, at: &mut u64) -> Batch {
    let ring = observer.ring();
    let (oldest, next) = ring.bounds();
    // A ring that began anew has smaller numbers.
    let from = if *at > next { oldest } else { (*at).max(oldest) };
    let mut missed = from.saturating_sub(*at);
    let (mut flows, mut end) = (Vec::new(), next);
    for number in from..next {
        let Some(stored) = ring.get(number) else { continue };
        let is_young = now().saturating_sub(stored.time) < NAME_PATIENCE;
        if observer.want_names(&stored) && is_young {
            end = number;
            break;
        }
        let Some(shown) = Shown::of(observer, &stored, words) else { continue };
        match flows.len() < BEAT_FLOWS_MAX {
            true => flows.push(shown),
            false => missed += 1,
        }
    }
    *at = end;
    Batch { flows, missed, next: end }
}

#[cfg(test)]
pub(super) fn batch_json(observer: &Observer, filter: &str, at: &mut u64) -> serde_json::Value {
    let words = Words::parse(filter).expect("a filter");
    serde_json::to_value(batch(observer, &words, at)).expect("JSON")
}
