//! The thread that serves the monitor's socket: it reads the kernel's records and the agent's
//! notices, and gives both to each listener.

use std::{
    io,
    os::unix::net::{UnixListener, UnixStream},
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
};
use volvox_maps::Rings;

use super::{Notified, gob::encode, listener::Listener};

/// How many may listen at a time; more wait in the kernel.
const LISTENERS_MAX: usize = 32;
/// Pause after one could not be let in.
const REFUSAL_PAUSE: Duration = Duration::from_millis(100);

/// Reads the records while somebody listens, and hands them on.
pub(super) struct Hub {
    socket: UnixListener,
    stopped: UnixStream,
    bpf_root: PathBuf,
    listeners: Vec<Listener>,
    events: Option<Rings>,
    /// What the agent itself has to say.
    notified: Option<Notified>,
}

/// What there is to do.
struct Ready {
    stop: bool,
    connect: bool,
    notices: bool,
    records: bool,
    /// For each listener, whether it said something or went.
    heard: Vec<bool>,
}

impl Hub {
    /// `socket` must not block; the other end of `stopped` is dropped to stop it.
    pub(super) fn new(
        socket: UnixListener,
        stopped: UnixStream,
        bpf_root: &Path,
        notified: Option<Notified>,
    ) -> Self {
        let bpf_root = bpf_root.to_owned();
        Self { socket, stopped, bpf_root, listeners: Vec::new(), events: None, notified }
    }

    /// Serves until it is stopped.
    pub(super) fn run(&mut self) {
        loop {
            let ready = match self.wait() {
                Ok(ready) => ready,
                Err(Errno::INTR) => continue,
                Err(error) => {
                    tracing::error!(%error, "records are not handed on any more");
                    return;
                }
            };
            if ready.stop {
                return;
            }
            let mut heard = ready.heard.into_iter();
            self.listeners.retain_mut(|one| !heard.next().unwrap_or(false) || one.is_there());
            if ready.connect {
                self.connect();
            }
            if ready.notices {
                self.tell_notices();
            }
            if ready.records {
                self.hand_on();
            }
            self.listeners.retain_mut(Listener::flush);
            if self.listeners.is_empty() {
                self.events = None;
            }
        }
    }

    fn wait(&self) -> Result<Ready, Errno> {
        let mut fds = vec![PollFd::new(&self.stopped, PollFlags::IN)];
        let full = self.listeners.len() >= LISTENERS_MAX;
        let expected = if full { PollFlags::empty() } else { PollFlags::IN };
        fds.push(PollFd::new(&self.socket, expected));
        // Whoever stops it is heard before.
        let bell = self.notified.as_ref().map_or(&self.stopped, |notified| &notified.bell);
        fds.push(PollFd::new(bell, PollFlags::IN));
        for one in &self.listeners {
            let writes = if one.has_backlog() { PollFlags::OUT } else { PollFlags::empty() };
            fds.push(PollFd::new(one, PollFlags::IN | writes));
        }
        let rings = fds.len();
        let ring_fds = self.events.iter().flat_map(Rings::fds);
        fds.extend(ring_fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        poll(&mut fds, None)?;
        let is_ready = |fd: &PollFd<'_>| !fd.revents().is_empty();
        let gone_or_speaks =
            |fd: &PollFd<'_>| fd.revents().intersects(PollFlags::all() - PollFlags::OUT);
        Ok(Ready {
            stop: is_ready(&fds[0]),
            connect: is_ready(&fds[1]),
            notices: is_ready(&fds[2]),
            heard: fds[3..rings].iter().map(gone_or_speaks).collect(),
            records: fds[rings..].iter().any(is_ready),
        })
    }

    /// Takes in one who has connected. Without records there is nothing to stay for, and it sees
    /// itself why there are none.
    fn connect(&mut self) {
        let taken = self.socket.accept().and_then(|(stream, _)| {
            stream.set_nonblocking(true)?;
            Ok(stream)
        });
        let stream = match taken {
            Ok(stream) => stream,
            Err(error) => {
                if error.kind() != io::ErrorKind::WouldBlock {
                    tracing::warn!(%error, "one who wants to listen cannot be let in");
                    // It keeps knocking; without descriptors, say, nothing helps but time.
                    thread::sleep(REFUSAL_PAUSE);
                }
                return;
            }
        };
        if self.events.is_none() {
            match Rings::events(&self.bpf_root) {
                Ok(events) => self.events = Some(events),
                Err(error) => {
                    tracing::warn!(%error, "no records to hand on");
                    return;
                }
            }
        }
        self.listeners.push(Listener::greet(stream));
    }

    fn tell_notices(&mut self) {
        let events = self.notified.as_ref().map(Notified::take).unwrap_or_default();
        for event in events {
            let message = encode(&event);
            self.listeners.iter_mut().for_each(|one| one.take(&event, &message));
        }
    }

    fn hand_on(&mut self) {
        let Self { events: Some(events), listeners, .. } = self else { return };
        events.drain(|event| {
            let message = encode(&event);
            for one in &mut *listeners {
                one.take(&event, &message);
            }
        });
    }
}
