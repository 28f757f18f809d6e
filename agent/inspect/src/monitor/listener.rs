//! One listener at the monitor's socket: its backlog, and the count of what it lost.

use std::{
    collections::VecDeque,
    io::{self, Read, Write},
    os::{
        fd::{AsFd, BorrowedFd},
        unix::net::UnixStream,
    },
};

use volvox_maps::Event;

use super::gob::{GREETING, encode};

/// What may wait for a listener that is slow, bytes: some five thousand records.
const BACKLOG_MAX: usize = 1 << 20;

/// Somebody who wants the records.
///
/// It never holds anybody up: what does not fit is counted, and it is told how much that was.
pub(super) struct Listener {
    stream: UnixStream,
    backlog: VecDeque<u8>,
    lost: u64,
}

impl Listener {
    /// Greets whoever has connected. `stream` must not block.
    pub(super) fn greet(stream: UnixStream) -> Self {
        Self { stream, backlog: GREETING.iter().copied().collect(), lost: 0 }
    }

    /// Whether something waits to be written.
    pub(super) fn has_backlog(&self) -> bool {
        !self.backlog.is_empty()
    }

    /// Takes an event, given as itself and as its message.
    pub(super) fn take(&mut self, event: &Event, message: &[u8]) {
        self.tell_lost();
        if self.lost == 0 && self.backlog.len() + message.len() <= BACKLOG_MAX {
            self.backlog.extend(message);
        } else {
            self.lost = self.lost.saturating_add(match event {
                Event::Sample { .. } => 1,
                Event::Lost { count, .. } => *count,
            });
        }
    }

    /// Tells how much it did not get, once half of the backlog is free: one message for many.
    fn tell_lost(&mut self) {
        if self.lost > 0 && self.backlog.len() <= BACKLOG_MAX / 2 {
            self.backlog.extend(encode(&Event::Lost { cpu: 0, count: self.lost }));
            self.lost = 0;
        }
    }

    /// Writes what it takes now. False when it has gone.
    pub(super) fn flush(&mut self) -> bool {
        loop {
            self.tell_lost();
            let (next, _) = self.backlog.as_slices();
            if next.is_empty() {
                return true;
            }
            match self.stream.write(next) {
                Ok(written) => drop(self.backlog.drain(..written)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return true,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
    }

    /// Reads what it says, which is nothing. False when it has gone.
    pub(super) fn is_there(&mut self) -> bool {
        let mut nothing = [0; 64];
        match self.stream.read(&mut nothing) {
            Ok(read) => read > 0,
            Err(error) => {
                matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
            }
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
