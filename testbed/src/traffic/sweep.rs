//! Which of many addresses answer a ping.

use std::{
    collections::BTreeSet,
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, bail, ensure};
use rustix::{
    process::{getpriority_process, setpriority_process},
    thread::gettid,
};

use super::{ping, sockets};
use crate::lab::{Netns, PATIENCE};

/// Between two rounds of pings.
const ROUND: Duration = Duration::from_millis(2);

/// The same while few are pinged.
const ROUND_OF_FEW: Duration = Duration::from_micros(500);

/// Addresses that stand for all where all begin to answer at once.
const FEW: usize = 4;

/// Without an answer for so long, an address is silent.
const SILENCE: Duration = Duration::from_millis(200);

/// The highest priority, as nice(2) counts.
const FIRST: i32 = -20;

/// Pings many addresses from one namespace.
pub struct Sweep {
    socket: UdpSocket,
    targets: Vec<IpAddr>,
}

/// Puts the calling thread before all others until it is dropped: who takes the time must not wait
/// for a processor behind those whose work takes it.
struct Clock {
    before: i32,
}

impl Clock {
    fn start() -> Result<Self> {
        let before = getpriority_process(Some(gettid()))?;
        setpriority_process(Some(gettid()), FIRST)?;
        Ok(Self { before })
    }
}

impl Drop for Clock {
    fn drop(&mut self) {
        if let Err(error) = setpriority_process(Some(gettid()), self.before) {
            volvox_system::complain!("a thread keeps its priority of {FIRST}: {error}");
        }
    }
}

/// When addresses began to answer.
#[derive(Clone, Copy, Debug)]
pub struct Answered {
    /// The first of them.
    pub first: Instant,
    /// The last of them.
    pub last: Instant,
}

impl Sweep {
    /// Makes ready to ping `targets`, IPv4, from `namespace`.
    pub fn start(namespace: &Netns, targets: Vec<IpAddr>) -> Result<Self> {
        Self::start_from(Ipv4Addr::UNSPECIFIED, namespace, targets)
    }

    /// The same from one of the namespace's addresses.
    pub fn start_from(source: Ipv4Addr, namespace: &Netns, targets: Vec<IpAddr>) -> Result<Self> {
        ensure!(targets.iter().all(IpAddr::is_ipv4), "only IPv4 is swept");
        let socket = namespace.run(|| {
            ping::allow()?;
            Ok(sockets::unconnected_ping(source)?)
        })?;
        Ok(Self { socket, targets })
    }

    /// Pings those that have not answered, until all have.
    pub fn wait_for_all(&mut self) -> Result<Answered> {
        self.wait(usize::MAX)
    }

    /// The same where all are to answer at once: pings only a few before one has, and leaves the
    /// processors to those whose work is waited for.
    pub fn wait_for_all_at_once(&mut self) -> Result<Answered> {
        self.wait(FEW)
    }

    /// Pings at most so many before one has answered.
    fn wait(&mut self, before: usize) -> Result<Answered> {
        let _clock = Clock::start()?;
        let mut silent: BTreeSet<_> = self.targets.iter().copied().collect();
        let deadline = Instant::now() + PATIENCE;
        let mut first = None;
        loop {
            let waits = first.is_none() && before < silent.len();
            let next = Instant::now() + if waits { ROUND_OF_FEW } else { ROUND };
            self.send(silent.iter().take(first.map_or(before, |_| usize::MAX)))?;
            while let Some(from) = self.receive()? {
                let now = Instant::now();
                silent.remove(&from);
                first.get_or_insert(now);
            }
            let now = Instant::now();
            if let (true, Some(first)) = (silent.is_empty(), first) {
                return Ok(Answered { first, last: now });
            }
            if now > deadline {
                bail!("after {PATIENCE:?}, {} addresses do not answer", silent.len());
            }
            thread::sleep(next.saturating_duration_since(now));
        }
    }

    /// Pings all until none answers any more.
    pub fn wait_for_silence(&mut self) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        let mut since = Instant::now();
        while since.elapsed() < SILENCE {
            self.send(self.targets.iter())?;
            thread::sleep(ROUND * 5);
            while self.receive()?.is_some() {
                since = Instant::now();
            }
            ensure!(Instant::now() < deadline, "after {PATIENCE:?} some addresses still answer");
        }
        Ok(())
    }

    fn send<'a>(&self, targets: impl Iterator<Item = &'a IpAddr>) -> Result<()> {
        for target in targets {
            match self.socket.send_to(&ping::ECHO_V4, SocketAddr::new(*target, 0)) {
                // Refused by the sender's own policy, or a full queue: as good as no answer.
                Ok(_) | Err(_) => {}
            }
        }
        Ok(())
    }

    fn receive(&self) -> Result<Option<IpAddr>> {
        match self.socket.recv_from(&mut [0; 64]) {
            Ok((_, from)) => Ok(Some(from.ip())),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}
