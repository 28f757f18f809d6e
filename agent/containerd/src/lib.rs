//! containerd, the container runtime of the node, by its own API at a Unix socket.
//!
//! A thread of its own speaks to it; what it hears goes to the actors' thread. To connect again after an
//! end, and what is made of what is heard, is left to the actors. Nothing is ever asked to be changed.

mod client;
mod error;
mod follow;
#[cfg(any(debug_assertions, feature = "fuzzing"))]
pub mod fuzzing;
mod messages;

use std::path::Path;

use tokio::{
    runtime::{Builder, Handle},
    sync::{mpsc, oneshot},
    task::spawn_local,
};
use volvox_actors::{
    host::Reply,
    ports::{
        ContainerRuntime, RuntimeContainers, RuntimeError, RuntimeSink, Watch, WhichContainers,
    },
};

use client::Client;
pub use error::ContainerdError;

/// What a connection may be ahead of the actors' thread, events.
const EVENTS_MAX: usize = 64;

/// The way to containerd. Its thread ends when this is dropped.
pub struct Containerd {
    runtime: Handle,
    client: Client,
    _end: oneshot::Sender<()>,
}

impl Containerd {
    /// Starts the thread; does not wait for containerd. To be called on the actors' thread.
    pub fn start(socket: &Path) -> Result<Self, ContainerdError> {
        let runtime =
            Builder::new_current_thread().enable_all().build().map_err(ContainerdError::Thread)?;
        let handle = runtime.handle().clone();
        let (end, ended) = oneshot::channel::<()>();
        volvox_system::threads::spawn("containerd", move || {
            // Either way the port is gone.
            let _ = runtime.block_on(ended);
        })
        .map_err(ContainerdError::Thread)?;
        Ok(Self { runtime: handle, client: Client::new(socket), _end: end })
    }
}

impl ContainerRuntime for Containerd {
    fn follow(&self, mut tell: RuntimeSink) -> Watch {
        let (events, mut seen) = mpsc::channel(EVENTS_MAX);
        self.runtime.spawn(follow::follow(self.client.clone(), events));
        let telling = spawn_local(async move {
            while let Some(event) = seen.recv().await {
                if !tell(event) {
                    break;
                }
            }
        });
        // With its receiver gone, the other end sees that nobody listens.
        Watch::new(move || telling.abort())
    }

    fn look_up(
        &self,
        which: WhichContainers,
        reply: Reply<Result<RuntimeContainers, RuntimeError>>,
    ) {
        let client = self.client.clone();
        let work = self.runtime.spawn(async move { client.look_up(which).await });
        spawn_local(async move {
            // Dropped without an answer, the reply says itself that there will be none.
            if let Ok(result) = work.await {
                reply.send(result.map_err(|error| RuntimeError(error.to_string())));
            }
        });
    }
}
