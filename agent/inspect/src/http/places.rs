//! The connections of one listener: so many at a time, and who makes room for one more.
//!
//! To connect and send half a request costs its sender nothing. So when every place is taken, the
//! connection that has waited longest for a request makes room; one that is being answered never
//! does.

use std::{
    collections::BTreeMap,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
};

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// Places for connections.
pub struct Places {
    count: u32,
    free: Arc<Semaphore>,
    idle: Mutex<Idle>,
    /// Another connection waits for a request.
    more_idle: Notify,
}

/// Connections that wait for a request, longest first, by numbers from 1.
#[derive(Default)]
struct Idle {
    connections: BTreeMap<u64, Arc<Notify>>,
    last: u64,
}

impl Places {
    /// So many.
    pub fn new(count: u32) -> Arc<Self> {
        let free = Arc::new(Semaphore::new(count as usize));
        Arc::new(Self { count, free, idle: Mutex::default(), more_idle: Notify::new() })
    }

    /// A place for one more connection, as soon as there is one.
    pub(super) async fn take(self: &Arc<Self>) -> Option<Arc<Place>> {
        loop {
            // From here on nobody is missed who becomes idle.
            let more_idle = self.more_idle.notified();
            let free = Arc::clone(&self.free);
            let permit = match Arc::clone(&free).try_acquire_owned() {
                Ok(permit) => permit,
                Err(_) => {
                    self.make_room();
                    tokio::select! {
                        permit = free.acquire_owned() => permit.ok()?,
                        () = more_idle => continue,
                    }
                }
            };
            let leave = Arc::new(Notify::new());
            let (places, number) = (Arc::clone(self), AtomicU64::new(0));
            let place = Arc::new(Place { places, leave, number, _permit: permit });
            place.be_idle();
            return Some(place);
        }
    }

    /// Waits until no connection is left.
    pub(super) async fn all_free(&self) {
        drop(self.free.acquire_many(self.count).await);
    }

    fn make_room(&self) {
        if let Some((_, connection)) = self.idle().connections.pop_first() {
            connection.notify_one();
        }
    }

    fn idle(&self) -> MutexGuard<'_, Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The place of one connection; free again when it is dropped.
pub(super) struct Place {
    places: Arc<Places>,
    leave: Arc<Notify>,
    /// Its number among those that wait for a request; 0 while it is answered.
    number: AtomicU64,
    _permit: OwnedSemaphorePermit,
}

impl Place {
    /// A request came. It is being answered as long as the body lives that is held by this.
    pub(super) fn answer(self: &Arc<Self>) -> Answering {
        self.be_busy();
        Answering(Arc::clone(self))
    }

    /// Ends when the connection is to make room.
    pub(super) async fn told_to_leave(&self) {
        loop {
            self.leave.notified().await;
            // A request may have come first.
            if self.number.load(Ordering::Relaxed) != 0 {
                return;
            }
        }
    }

    fn be_idle(&self) {
        let mut idle = self.places.idle();
        idle.last += 1;
        let number = idle.last;
        idle.connections.insert(number, Arc::clone(&self.leave));
        drop(idle);
        self.number.store(number, Ordering::Relaxed);
        self.places.more_idle.notify_waiters();
    }

    fn be_busy(&self) {
        let number = self.number.swap(0, Ordering::Relaxed);
        self.places.idle().connections.remove(&number);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.be_busy();
    }
}

/// A request that is being answered.
pub(super) struct Answering(Arc<Place>);

impl Answering {
    /// Until that body is sent.
    pub(super) fn until_sent(self, body: Body) -> Body {
        Body::new(Held { body, _answering: self })
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.be_idle();
    }
}

/// A body during which its connection keeps its place.
struct Held {
    body: Body,
    _answering: Answering,
}

impl HttpBody for Held {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
