//! The client's end of a socket that carries records of the datapath. Who is at the other end is
//! the source's concern.

use std::{
    io::{self, Read},
    mem,
    os::unix::net::UnixStream,
    path::Path,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};
use volvox_inspect::monitor::Decoder;
use volvox_maps::Event;

/// What is read at once, bytes.
const CHUNK: usize = 64 << 10;

/// A connection to somebody who hands on records.
pub(super) struct Connection {
    stream: UnixStream,
    decoder: Decoder,
    /// What has come.
    came: Vec<Event>,
}

impl Connection {
    /// Connects, if anybody listens there.
    pub(super) fn open(socket: &Path) -> Option<Self> {
        let stream = UnixStream::connect(socket).ok()?;
        stream.set_nonblocking(true).ok()?;
        Some(Self { stream, decoder: Decoder::default(), came: Vec::new() })
    }

    /// Whether it says within that time that it hands on records.
    pub(super) fn greets(&mut self, patience: Duration) -> bool {
        let deadline = Instant::now() + patience;
        while !self.is_greeted() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || !self.receive(left) {
                return false;
            }
        }
        true
    }

    /// Whether it has said so.
    pub(super) fn is_greeted(&self) -> bool {
        self.decoder.is_greeted()
    }

    /// What has come since the last call.
    pub(super) fn take(&mut self) -> Vec<Event> {
        mem::take(&mut self.came)
    }

    /// Waits at most so long, unless something has come already, and takes what has come whole.
    /// False when the connection has ended.
    pub(super) fn receive(&mut self, longest: Duration) -> bool {
        let longest = if self.came.is_empty() { longest } else { Duration::ZERO };
        let goes_on = self.read(longest);
        match self.decoder.events() {
            Ok(events) => self.came.extend(events),
            Err(error) => {
                volvox_system::complain!("volvox: {error}");
                return false;
            }
        }
        goes_on
    }

    fn read(&mut self, longest: Duration) -> bool {
        let mut fds = [PollFd::new(&self.stream, PollFlags::IN)];
        let Ok(longest) = Timespec::try_from(longest) else { return false };
        match poll(&mut fds, Some(&longest)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return false,
        }
        let mut chunk = vec![0; CHUNK];
        match self.stream.read(&mut chunk) {
            Ok(0) => false,
            Ok(read) => {
                self.decoder.feed(&chunk[..read]);
                true
            }
            Err(error) => {
                matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
            }
        }
    }
}
