//! The hooks: who started last is stopped first, and one that hangs or panics costs only itself.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use tokio::{sync::oneshot, task::spawn_local, time::timeout};
use volvox_system::threads;

use super::Part;

type Stopping = Pin<Box<dyn Future<Output = ()>>>;

/// Hooks in the order in which their parts started.
#[derive(Default)]
pub struct Hooks(Vec<(Part, Stopping)>);

/// The hook that runs, for whoever has to say who did not end.
#[derive(Clone, Debug, Default)]
pub struct UnderWay(Arc<Mutex<Option<&'static str>>>);

impl Hooks {
    /// That part has started; its hook is what stops it. It is not polled before that.
    pub fn started(&mut self, part: Part, hook: impl Future<Output = ()> + 'static) {
        self.0.push((part, Box::pin(hook)));
    }

    /// Stops all, the last one first. To be called on the actors' thread, which goes on meanwhile.
    pub async fn stop(self, under_way: UnderWay) {
        for (part, hook) in self.0.into_iter().rev() {
            under_way.set(Some(part.name));
            stop(part, hook).await;
        }
        under_way.set(None);
    }
}

async fn stop(part: Part, hook: Stopping) {
    let Part { name, patience, otherwise } = part;
    let begun = Instant::now();
    // A task of its own: a panic ends that, and not the others.
    let mut task = spawn_local(hook);
    // What needs no time is given a moment all the same.
    match timeout(patience.max(A_MOMENT), &mut task).await {
        Ok(Ok(())) => tracing::debug!(part = name, took = ?begun.elapsed(), "stopped"),
        Ok(Err(error)) => tracing::error!(part = name, %error, "not stopped; {otherwise}"),
        Err(_) => {
            task.abort();
            tracing::warn!(part = name, ?patience, "has not stopped in time; {otherwise}");
        }
    }
}

/// For hooks that only have to be run.
const A_MOMENT: std::time::Duration = std::time::Duration::from_millis(100);

/// Does what blocks, on a thread of its own.
pub async fn aside(work: impl FnOnce() + Send + 'static) {
    let (done, ended) = oneshot::channel();
    let thread = threads::spawn("stop", move || {
        work();
        // Whoever waited may have given up.
        let _ = done.send(());
    });
    match thread {
        // A thread that panicked has said so, and tells nobody that it is done.
        Ok(_) => drop(ended.await),
        Err(error) => tracing::error!(%error, "no thread to stop on; raise the limit of threads"),
    }
}

impl UnderWay {
    fn set(&self, name: Option<&'static str>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = name;
    }

    /// Its name, or what goes on before and after all hooks.
    pub fn name(&self) -> &'static str {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).unwrap_or("the actors' thread")
    }
}
