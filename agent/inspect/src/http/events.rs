//! Server-sent events: what is new is said in beats, for as long as somebody listens. One beat waits for the
//! client at a time, so whoever reads slowly gets bigger ones, and not more memory.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    body::{Body, Bytes, HttpBody},
    http::{HeaderValue, header},
    response::{IntoResponse, Response},
};
use hyper::body::Frame;
use serde::Serialize;
use tokio::{
    sync::{OwnedSemaphorePermit, mpsc},
    task::spawn_blocking,
    time::{Instant, sleep_until},
};

/// Time between two beats: what eyes take for at once.
const BEAT: Duration = Duration::from_millis(200);
/// Something is said at least so often: a connection that is gone is noticed.
const SILENCE_MAX: Duration = Duration::from_secs(10);

/// What a beat has to say.
#[derive(Debug)]
pub enum Beat {
    /// An event.
    Say(Bytes),
    /// Nothing is new.
    Nothing,
    /// A last event: nothing comes after it.
    End(Bytes),
}

impl Beat {
    /// An event of that name, with JSON.
    pub fn json(name: &str, value: &impl Serialize) -> Self {
        match serde_json::to_string(value) {
            Ok(json) => Self::Say(format!("event: {name}\ndata: {json}\n\n").into()),
            Err(error) => {
                tracing::error!(%error, "an event of a stream cannot be written as JSON");
                Self::End(format!("event: {name}-failed\ndata: {{}}\n\n").into())
            }
        }
    }

    /// A last event of that name, with nothing beside.
    pub fn end(name: &str) -> Self {
        Self::End(format!("event: {name}\ndata: {{}}\n\n").into())
    }
}

/// A stream of what `beat` says, asked on a thread that may wait for a disk. The permit is held as long.
pub fn event_stream(
    permit: OwnedSemaphorePermit,
    beat: impl FnMut() -> Beat + Send + 'static,
) -> Response {
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(follow(beat, sender, permit));
    let kind = HeaderValue::from_static("text/event-stream");
    ([(header::CONTENT_TYPE, kind)], Body::new(Stream(receiver))).into_response()
}

/// Asks and sends until all is said or nobody listens.
async fn follow(
    mut beat: impl FnMut() -> Beat + Send + 'static,
    sender: mpsc::Sender<Bytes>,
    _permit: OwnedSemaphorePermit,
) {
    let mut spoken = Instant::now() - SILENCE_MAX;
    loop {
        let next = Instant::now() + BEAT;
        let asked = spawn_blocking(move || {
            let said = beat();
            (beat, said)
        });
        // Who panicked has nothing more to say; the page connects again.
        let Ok((again, said)) = asked.await else { return };
        beat = again;
        let text = match said {
            Beat::Say(text) => text,
            Beat::Nothing if spoken.elapsed() >= SILENCE_MAX => ": nothing new\n\n".into(),
            Beat::Nothing => Bytes::new(),
            Beat::End(text) => {
                let _ = sender.send(text).await;
                return;
            }
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
