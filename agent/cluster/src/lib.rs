//! The API server: lists and watches on a thread of their own, which also does what they cost:
//! encryption, parsing, and leaving out what nobody reads.
//!
//! Nothing is tried twice here: the actors decide what becomes of a failure. Of several servers one is
//! asked by all. Once it cannot be reached, the next request goes to the next one, round.

mod access;
mod connections;
mod events;
mod failover;
mod fetch;
#[cfg(any(debug_assertions, feature = "fuzzing"))]
pub mod fuzzing;
mod review;
mod servers;
#[cfg(test)]
mod tests;
mod trim;

use std::{io, rc::Rc, sync::Arc, time::Duration};

use tokio::{
    runtime::Handle,
    sync::{mpsc, oneshot},
    task::{AbortHandle, spawn_local},
};
use volvox_actors::{
    host::Reply,
    ports::{
        Cluster, ClusterError, Definition, Object, ObjectChange, ObjectKey, ObjectWatch,
        ObjectWrite, Page, Resource,
    },
};

pub use access::Access;
pub use fetch::Connection;
pub use review::Review;
pub use servers::{Servers, ServersError};

/// Batches of events that wait for the actors; then the server waits.
const BATCHES_MAX: usize = 16;

type Seen = Result<Vec<ObjectChange>, ClusterError>;

/// Why there is no way to the cluster.
#[derive(Debug, thiserror::Error)]
#[error("cannot start the thread that talks to the API server: {0}; raise the limit of threads")]
pub struct ClusterPortError(#[from] io::Error);

/// The way to an API server. The thread ends with it.
pub struct ClusterPort {
    runtime: Handle,
    connection: Arc<Connection>,
    _stop: oneshot::Sender<()>,
}

impl ClusterPort {
    /// Starts the thread. Nothing is connected before somebody asks for something.
    ///
    /// To be called on the actors' thread, within its actix system.
    pub fn start(access: Access) -> Result<Self, ClusterPortError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        volvox_system::threads::spawn("cluster", move || {
            // An error too says that the port is gone.
            let _ = runtime.block_on(stopped);
        })?;
        let connection = Arc::new(Connection::new(access));
        Ok(Self { runtime: handle, connection, _stop: stop })
    }

    /// Has something done on the thread; its outcome comes through `reply`.
    fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
        reply: Reply<T>,
    ) {
        let (done, outcome) = oneshot::channel();
        self.runtime.spawn(async move {
            // Whoever asked may not wait any more.
            drop(done.send(work.await));
        });
        spawn_local(async move {
            if let Ok(outcome) = outcome.await {
                reply.send(outcome);
            }
        });
    }
}

impl Cluster for ClusterPort {
    fn address(&self) -> Option<String> {
        self.connection.address()
    }

    fn connections(&self) -> u64 {
        self.connection.made()
    }

    fn list(
        &self,
        resource: &Resource,
        next: Option<String>,
        reply: Reply<Result<Page, ClusterError>>,
    ) {
        let (connection, resource) = (Arc::clone(&self.connection), resource.clone());
        self.run(async move { connection.list(&resource, next.as_deref()).await }, reply);
    }

    fn get(
        &self,
        resource: &Resource,
        key: &ObjectKey,
        reply: Reply<Result<Object, ClusterError>>,
    ) {
        let (connection, resource) = (Arc::clone(&self.connection), resource.clone());
        let key = key.clone();
        self.run(async move { connection.one(&resource, &key).await }, reply);
    }

    fn definition(&self, name: &str, reply: Reply<Result<Option<Definition>, ClusterError>>) {
        let (connection, name) = (Arc::clone(&self.connection), name.to_owned());
        self.run(async move { connection.definition(&name).await }, reply);
    }

    fn write(&self, write: ObjectWrite, reply: Reply<Result<(), ClusterError>>) {
        let connection = Arc::clone(&self.connection);
        self.run(async move { connection.write(&write).await }, reply);
    }

    fn watch(
        &self,
        resource: &Resource,
        version: &str,
        lifetime: Duration,
    ) -> Box<dyn ObjectWatch> {
        let (events, seen) = mpsc::channel(BATCHES_MAX);
        let (connection, resource) = (Arc::clone(&self.connection), resource.clone());
        let version = version.to_owned();
        self.runtime
            .spawn(async move { connection.watch(&resource, &version, lifetime, events).await });
        Box::new(Watching { seen: Rc::new(tokio::sync::Mutex::new(seen)), waiting: None })
    }
}

/// A watch as the actors hold it: dropped, it ends on the thread too.
struct Watching {
    seen: Rc<tokio::sync::Mutex<mpsc::Receiver<Seen>>>,
    waiting: Option<AbortHandle>,
}

impl ObjectWatch for Watching {
    fn next(&mut self, reply: Reply<Seen>) {
        let seen = Rc::clone(&self.seen);
        let task = spawn_local(async move {
            // One waits at a time: the actor asks again when it has heard.
            let next = seen.lock().await.recv().await;
            reply.send(next.unwrap_or(Err(ClusterError::Ended)));
        });
        self.waiting = Some(task.abort_handle());
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        if let Some(waiting) = self.waiting.take() {
            waiting.abort();
        }
    }
}
