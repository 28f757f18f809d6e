//! Tells when something changes at the node's interfaces.

use std::io;

use tokio::sync::mpsc;

use super::netlink::{Changes, NetlinkError};

/// Wakes whoever is to look at the interfaces.
pub struct LinkWatch(mpsc::Receiver<()>);

/// Why nobody listens.
#[derive(Debug, thiserror::Error)]
pub enum LinkWatchError {
    /// The kernel does not tell.
    #[error(transparent)]
    Netlink(#[from] NetlinkError),
    /// There is no thread for it.
    #[error("start the thread that listens to changes of interfaces: {0}")]
    Thread(io::Error),
}

impl LinkWatch {
    /// Listens from now on. Interfaces whose names begin with `pods` are pods'.
    pub fn start(pods: &str) -> Result<Self, LinkWatchError> {
        let mut changes = Changes::listen(pods)?;
        // One that was not taken up yet stands for all.
        let (sender, receiver) = mpsc::channel(1);
        let work = move || {
            while !sender.is_closed() {
                match changes.wait() {
                    Ok(()) => drop(sender.try_send(())),
                    Err(error) => {
                        tracing::error!(%error, "changes of interfaces are seen each minute only");
                        return;
                    }
                }
            }
        };
        crate::threads::spawn("interfaces", work).map_err(LinkWatchError::Thread)?;
        Ok(Self(receiver))
    }

    /// Waits for a change; `None` if nobody listens any more.
    pub async fn next(&mut self) -> Option<()> {
        self.0.recv().await
    }
}
