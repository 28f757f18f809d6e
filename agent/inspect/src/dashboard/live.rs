//! The life that is being lived, as server-sent events: batches of what was recorded meanwhile.

use std::{
    pin::Pin,
    sync::{Arc, LazyLock},
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    body::{Body, Bytes, HttpBody},
    extract::{Query, State},
    http::{HeaderValue, header},
    response::{IntoResponse, Response},
};
use hyper::body::Frame;
use serde::{Deserialize, Serialize};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
    time::{Instant, sleep_until},
};
use volvox_actors::host::flight::{Event, Flight};

use super::Lives;
use crate::http::ApiError;

/// Time between two batches: what eyes take for at once.
const BEAT: Duration = Duration::from_millis(200);
/// Events in one batch; more follow at the next beat.
const BATCH_EVENTS_MAX: usize = 5_000;
/// Something is said at least so often: a connection that is gone is noticed.
const SILENCE_MAX: Duration = Duration::from_secs(10);
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
    // One batch at a time: whoever reads slowly gets bigger ones, not more memory.
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(follow(lives, asked, sender, permit));
    let kind = HeaderValue::from_static("text/event-stream");
    Ok(([(header::CONTENT_TYPE, kind)], Body::new(Stream(receiver))).into_response())
}

/// Reads and sends until the life is another one or nobody listens.
async fn follow(
    lives: Arc<Lives>,
    asked: Asked,
    sender: mpsc::Sender<Bytes>,
    _permit: OwnedSemaphorePermit,
) {
    let mut after = asked.after;
    let mut spoken = Instant::now() - SILENCE_MAX;
    loop {
        let next = Instant::now() + BEAT;
        let lives = Arc::clone(&lives);
        let read = tokio::task::spawn_blocking(move || batch(&lives, asked.life, after)).await;
        let text = match read {
            Ok(Some((text, last))) => {
                after = after.max(last);
                text
            }
            // Another life, or no record any more: the page asks anew.
            Ok(None) | Err(_) => {
                let _ = sender.send("event: life\ndata: {}\n\n".into()).await;
                return;
            }
        };
        let text = match text {
            Some(text) => text,
            None if spoken.elapsed() >= SILENCE_MAX => ": nothing new\n\n".into(),
            None => Bytes::new(),
        };
        if !text.is_empty() {
            if sender.send(text).await.is_err() {
                return;
            }
            spoken = Instant::now();
        }
        tokio::select! {
            () = sleep_until(next) => {}
            () = sender.closed() => return,
        }
    }
}

/// The next batch as text, if there is anything in it, and the number of its last event.
fn batch(lives: &Lives, life: u64, after: u64) -> Option<(Option<Bytes>, u64)> {
    let Flight { life: found, events } = lives.current(after, BATCH_EVENTS_MAX)?.ok()?;
    if found.number != life {
        return None;
    }
    let Some(last) = events.last().map(|event| event.seq) else { return Some((None, after)) };
    let lost = (last - after).saturating_sub(events.len() as u64);
    match serde_json::to_string(&Batch { events: &events, lost }) {
        Ok(json) => Some((Some(format!("event: batch\ndata: {json}\n\n").into()), last)),
        Err(error) => {
            tracing::error!(%error, "a batch of events cannot be written as JSON");
            None
        }
    }
}

/// A body that ends with its sender.
struct Stream(mpsc::Receiver<Bytes>);

impl HttpBody for Stream {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.0.poll_recv(cx).map(|text| text.map(|text| Ok(Frame::data(text))))
    }
}
