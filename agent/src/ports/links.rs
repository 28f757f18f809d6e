//! Tells when something changes at the node's interfaces.

use std::io;

use tokio::sync::mpsc;
use volvox_actors::ports::Notices;
use volvox_system::netlink::{Changes, NetlinkError};

/// Wakes whoever is to look at the interfaces.
pub struct LinkWatch(mpsc::Receiver<Notices>);

/// What was heard and is not taken up yet. When there is more, the kernel keeps it, and says so when it
/// cannot any more.
const UNTAKEN: usize = 16;

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
        let (sender, receiver) = mpsc::channel(UNTAKEN);
        let work = move || {
            while !sender.is_closed() {
                match changes.wait() {
                    Ok(notices) => drop(sender.blocking_send(notices)),
                    Err(error) => {
                        tracing::error!(%error, "changes of interfaces are seen by the clock only");
                        return;
                    }
                }
            }
        };
        volvox_system::threads::spawn("interfaces", work).map_err(LinkWatchError::Thread)?;
        Ok(Self(receiver))
    }

    /// Waits for a change; `None` if nobody listens any more.
    pub async fn next(&mut self) -> Option<Notices> {
        self.0.recv().await
    }
}
