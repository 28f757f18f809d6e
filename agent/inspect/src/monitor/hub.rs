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
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};
use volvox_maps::{Event, Rings};

use super::{Notified, RecordTap, gob::encode, listener::Listener, notice::record};

/// How many may listen at a time; more wait in the kernel.
const LISTENERS_MAX: usize = 32;
/// How long records gather before they are taken, while nobody listens to each as it comes: a wake-up
/// for each costs more than the rest.
const GATHERING: Duration = Duration::from_millis(4);
/// How soon the ring of records is tried again that could not be opened, and what is owed is told.
const AGAIN: Duration = Duration::from_secs(1);
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
    /// Who has all records.
    tap: Option<Box<dyn RecordTap>>,
    /// Whether it is to be called again soon.
    owes: bool,
    /// Whether it was said that there are no records for it.
    complained: bool,
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
        (notified, tap): (Option<Notified>, Option<Box<dyn RecordTap>>),
    ) -> Self {
        Self {
            socket,
            stopped,
            bpf_root: bpf_root.to_owned(),
            listeners: Vec::new(),
            events: None,
            notified,
            tap,
            owes: false,
            complained: false,
        }
    }

    /// Serves until it is stopped.
    pub(super) fn run(&mut self) {
        loop {
            self.open_for_tap();
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
            if let Some(tap) = &mut self.tap {
                self.owes = tap.flush();
            } else if self.listeners.is_empty() {
                self.events = None;
            }
            if ready.records && self.listeners.is_empty() {
                thread::sleep(GATHERING);
            }
        }
    }

    /// Opens the ring of records for who taps them, if it is not open.
    fn open_for_tap(&mut self) {
        if self.tap.is_none() || self.events.is_some() {
            return;
        }
        match Rings::events(&self.bpf_root) {
            Ok(events) => (self.events, self.complained) = (Some(events), false),
            Err(error) => {
                if !std::mem::replace(&mut self.complained, true) {
                    tracing::warn!(%error, "no flows are seen yet; it is tried again each second");
                }
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
        let waits = self.tap.is_some() && (self.owes || self.events.is_none());
        let longest = waits.then(|| Timespec::try_from(AGAIN)).transpose();
        poll(&mut fds, longest.map_err(|_| Errno::INVAL)?.as_ref())?;
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
        let (news, missed) = self.notified.as_ref().map(Notified::take).unwrap_or_default();
        for news in news {
            if let Some(tap) = &mut self.tap {
                tap.hear(&news);
            }
            if !self.listeners.is_empty() {
                self.tell(&record(&news));
            }
        }
        if missed > 0 {
            self.tell(&Event::Lost { cpu: 0, count: missed });
        }
    }

    /// Hands one event to all who listen.
    fn tell(&mut self, event: &Event) {
        let message = encode(event);
        self.listeners.iter_mut().for_each(|one| one.take(event, &message));
    }

    fn hand_on(&mut self) {
        let Self { events: Some(events), listeners, tap, .. } = self else { return };
        events.drain(|event| {
            if let Some(tap) = tap {
                tap.take(&event);
            }
            if listeners.is_empty() {
                return;
            }
            let message = encode(&event);
            for one in &mut *listeners {
                one.take(&event, &message);
            }
        });
    }
}
