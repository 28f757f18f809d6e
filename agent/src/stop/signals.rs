//! The signals that end the agent, heard on a thread of its own: they end it also if its other threads
//! hang.

use std::{io, process, time::Duration};

use tokio::{
    runtime::Builder,
    signal::unix::{Signal, SignalKind, signal},
    sync::oneshot,
    time::sleep,
};
use volvox_system::threads;

use super::UnderWay;

/// What a shell adds to a signal's number for a process that it ended.
const BY_SIGNAL: i32 = 128;

/// Why signals are not heard.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen to SIGTERM and SIGINT: {0}; raise the limit of threads or of open files")]
pub struct SignalsError(#[from] io::Error);

/// Who waits for the first signal. Dropped, it changes nothing: the first signal then ends the agent.
pub struct Signals(oneshot::Receiver<&'static str>);

struct Heard {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Listens from now on. After the first signal the process has `limit` to end; a second one ends it
    /// at once.
    pub fn listen(limit: Duration, under_way: UnderWay) -> Result<Self, SignalsError> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let entered = runtime.enter();
        let heard = Heard {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        };
        drop(entered);
        let (tell, first) = oneshot::channel();
        threads::spawn("signals", move || runtime.block_on(end(heard, tell, limit, under_way)))?;
        Ok(Self(first))
    }

    /// The first signal's name.
    pub async fn first(self) -> anyhow::Result<&'static str> {
        Ok(self.0.await?)
    }
}

impl Heard {
    /// The next signal's name and number.
    async fn next(&mut self) -> (&'static str, i32) {
        tokio::select! {
            _ = self.terminate.recv() => ("SIGTERM", SignalKind::terminate().as_raw_value()),
            _ = self.interrupt.recv() => ("SIGINT", SignalKind::interrupt().as_raw_value()),
        }
    }
}

async fn end(
    mut heard: Heard,
    tell: oneshot::Sender<&'static str>,
    limit: Duration,
    under_way: UnderWay,
) {
    let (first, number) = heard.next().await;
    if tell.send(first).is_err() {
        process::exit(BY_SIGNAL + number);
    }
    // If all goes well the process ends meanwhile.
    tokio::select! {
        (signal, number) = heard.next() => {
            tracing::warn!(signal, awaited = under_way.name(), "a second signal: agent ends at once");
            process::exit(BY_SIGNAL + number);
        }
        () = sleep(limit) => {
            tracing::error!(?limit, awaited = under_way.name(), "agent ends, for it did not stop in time");
            process::exit(1);
        }
    }
}
