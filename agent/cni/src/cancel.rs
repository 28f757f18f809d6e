//! How a call is given up: the runtime sends a signal, and work that waits fails at once.

use tokio::{
    signal::unix::{SignalKind, signal},
    sync::watch,
};

use super::{CniError, ErrorCode};

/// Whether the runtime gave the call up.
#[derive(Clone, Debug)]
pub(super) struct Cancel(watch::Receiver<bool>);

impl Cancel {
    /// Cancelled by SIGTERM and SIGINT.
    pub(super) fn on_signals() -> std::io::Result<Self> {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let (sender, receiver) = watch::channel(false);
        tokio::spawn(async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            sender.send_replace(true);
        });
        Ok(Self(receiver))
    }

    /// Cancelled when the channel says so.
    #[cfg(test)]
    pub(super) fn when(receiver: watch::Receiver<bool>) -> Self {
        Self(receiver)
    }

    /// Fails if the call was given up.
    pub(super) fn check(&self) -> Result<(), CniError> {
        if *self.0.borrow() { Err(cancelled()) } else { Ok(()) }
    }

    /// Waits for `work`, or fails as soon as the call is given up.
    pub(super) async fn race<T>(&mut self, work: impl Future<Output = T>) -> Result<T, CniError> {
        tokio::select! {
            biased;
            // Without a sender nobody can give it up any more: this branch then never comes.
            Ok(_) = self.0.wait_for(|cancelled| *cancelled) => Err(cancelled()),
            done = work => Ok(done),
        }
    }
}

fn cancelled() -> CniError {
    CniError::new(ErrorCode::TryLater, "cancelled by a signal", "what was made is removed again")
}
