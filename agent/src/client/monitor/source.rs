use std::{
    io::{self, Read},
    mem,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};

use crate::{
    client::error::ClientError,
    monitor::{Decoder, socket_beside},
    ports::kernel::{Event, Events},
};

/// How long an agent that can be reached may take until it hands on records.
const GREETING_PATIENCE: Duration = Duration::from_secs(5);
/// What is read at once, bytes.
const CHUNK: usize = 64 << 10;

/// Where records come from: the agent, which hands them to everybody, or without it the kernel,
/// which has one reader.
pub(in crate::client) struct Source {
    socket: PathBuf,
    bpf_root: PathBuf,
    from: From,
}

enum From {
    Agent(Agent),
    Kernel {
        events: Events,
        /// An agent that can be reached, but has not said yet that it hands on records.
        next: Option<Agent>,
    },
}

/// A connection to the agent.
struct Agent {
    stream: UnixStream,
    decoder: Decoder,
    /// What has come.
    came: Vec<Event>,
}

impl Source {
    /// Asks the agent for records, given its API's socket; without it asks the kernel.
    pub(in crate::client) fn open(api: &Path, bpf_root: &Path) -> Result<Self, ClientError> {
        let (socket, bpf_root) = (socket_beside(api), bpf_root.to_owned());
        if let Some(mut agent) = Agent::connect(&socket) {
            if agent.greets(GREETING_PATIENCE) {
                return Ok(Self { socket, bpf_root, from: From::Agent(agent) });
            }
            eprintln!("volvox: the agent hands on no records: they are read without it");
        }
        let from = From::Kernel { events: Events::open(&bpf_root)?, next: None };
        Ok(Self { socket, bpf_root, from })
    }

    /// What has come, after waiting for it at most so long. Says on stderr when the source changes.
    pub(super) fn next(&mut self, longest: Duration) -> Result<Vec<Event>, ClientError> {
        match &mut self.from {
            From::Agent(agent) => {
                let longest = if agent.came.is_empty() { longest } else { Duration::ZERO };
                let goes_on = agent.receive(longest);
                let came = mem::take(&mut agent.came);
                if goes_on {
                    return Ok(came);
                }
                eprintln!(
                    "volvox: the agent has gone: records are read without it; there is one reader \
                     at a time, so another monitor may take them"
                );
                let events = Events::open(&self.bpf_root)?;
                self.from = From::Kernel { events, next: None };
                Ok(came)
            }
            From::Kernel { events, next } => {
                let failed = |error| ClientError::Failed(format!("listen: {error}"));
                events.wait(longest).map_err(failed)?;
                let agent = next.take().or_else(|| Agent::connect(&self.socket));
                *next = agent.and_then(|mut agent| agent.receive(Duration::ZERO).then_some(agent));
                // Since it greets, records go to the agent; what the rings hold is older.
                let returned = next.take_if(|agent| agent.decoder.is_greeted());
                let mut came = Vec::new();
                events.drain(|event| came.push(event));
                if let Some(agent) = returned {
                    eprintln!("volvox: the agent is back and hands on records");
                    self.from = From::Agent(agent);
                }
                Ok(came)
            }
        }
    }
}

impl Agent {
    /// Connects, if anybody listens there.
    fn connect(socket: &Path) -> Option<Self> {
        let stream = UnixStream::connect(socket).ok()?;
        stream.set_nonblocking(true).ok()?;
        Some(Self { stream, decoder: Decoder::default(), came: Vec::new() })
    }

    /// Whether it says within that time that it hands on records.
    fn greets(&mut self, patience: Duration) -> bool {
        let deadline = Instant::now() + patience;
        while !self.decoder.is_greeted() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || !self.receive(left) {
                return false;
            }
        }
        true
    }

    /// Waits at most so long, and takes what has come whole. False when the connection has ended.
    fn receive(&mut self, longest: Duration) -> bool {
        let goes_on = self.read(longest);
        match self.decoder.events() {
            Ok(events) => self.came.extend(events),
            Err(error) => {
                eprintln!("volvox: {error}");
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
