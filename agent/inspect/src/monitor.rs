//! The datapath's records for everybody who listens, over a unix socket.
//!
//! The kernel serves one reader of `cilium_events`: who opens it last has the records. So the agent
//! reads them, while somebody listens and only then, and hands them on; without listeners the map
//! is free for others. Where flows are kept, it reads them always. The socket and what is said on it are those of Cilium's monitor. While no
//! agent lives, one of the clients does the same at a socket of its own.

mod gob;
mod hub;
mod listener;
mod notice;
mod tap;
#[cfg(test)]
mod tests;

use std::{
    io,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    thread::JoinHandle,
};

pub use gob::{Decoder, GobError};
use hub::Hub;
pub use notice::{Notified, Notifier, notice, notices};
pub use tap::RecordTap;

use crate::http::{SocketError, bind, inode, unbind};

/// Name of the socket, beside the API's.
const SOCKET: &str = "monitor1_2.sock";
/// Name of the socket of whoever reads the records while no agent does. It is another one, so that
/// it is never in an agent's way.
const STAND_IN_SOCKET: &str = "monitor-stand-in.sock";

/// Why nobody can listen.
#[derive(Debug, thiserror::Error)]
pub enum MonitorError {
    /// The socket cannot be had.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// The system refused a thread, or what wakes it.
    #[error("cannot start the monitor's thread: {0}")]
    Thread(#[from] io::Error),
}

/// Where records are handed out, given the API's socket.
pub fn socket_beside(api: &Path) -> PathBuf {
    api.with_file_name(SOCKET)
}

/// Where they are handed out while no agent lives, given the API's socket.
pub fn stand_in_beside(api: &Path) -> PathBuf {
    api.with_file_name(STAND_IN_SOCKET)
}

/// Hands records out until it is dropped, on a thread of its own.
#[derive(Debug)]
pub struct Monitor {
    socket: PathBuf,
    inode: u64,
    /// Its end is what the thread notices.
    stop: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl Monitor {
    /// Listens at a path for those who want the records of the map below `bpf_root`, and the
    /// agent's notices if there is one. Who taps them has all, whoever listens.
    pub fn start(
        socket: &Path,
        bpf_root: &Path,
        notified: Option<Notified>,
        tap: Option<Box<dyn RecordTap>>,
    ) -> Result<Self, MonitorError> {
        let (stop, stopped) = UnixStream::pair()?;
        let mut hub = Hub::new(bind(socket)?, stopped, bpf_root, (notified, tap));
        let inode = inode(socket);
        let thread = volvox_system::threads::spawn("monitor", move || hub.run())?;
        Ok(Self { socket: socket.to_owned(), inode, stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the monitor's thread panicked");
        }
        unbind(&self.socket, self.inode);
    }
}
