//! Starting and stopping a stream.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use serde::Serialize;

use super::{Report, connect, counters::Counters, ping, sockets, tcp, udp};
use crate::lab::{Netns, wait_for};

/// After so long without an answer, once nothing more is sent, none comes any more.
const SILENCE: Duration = Duration::from_secs(4);

/// What a stream sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Numbered datagrams, each echoed.
    Udp,
    /// Records on one long connection, each echoed.
    Tcp,
    /// ICMP echo requests.
    Ping,
    /// A new connection each time, used for one byte.
    Connect,
}

impl Kind {
    /// All four.
    pub const ALL: [Self; 4] = [Self::Udp, Self::Tcp, Self::Ping, Self::Connect];
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
            Self::Ping => "ping",
            Self::Connect => "connect",
        })
    }
}

/// What to send where. The TCP kinds read the kernel's counters of both namespaces, so two of them
/// must not share one.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Kind of traffic.
    pub kind: Kind,
    /// Namespace of the sender.
    pub from: Netns,
    /// Namespace of the receiver.
    pub to: Netns,
    /// Address of the receiver, with the port that it serves; ping ignores the port.
    pub target: SocketAddr,
    /// Packets, records or connections a second.
    pub rate: u32,
}

/// What the threads of a stream share.
#[derive(Clone, Default)]
pub(super) struct Shared {
    /// Nothing more is to be sent.
    pub(super) stop: Arc<AtomicBool>,
    /// The receiver's end may go too.
    pub(super) close: Arc<AtomicBool>,
    /// Answers that came back.
    pub(super) answers: Arc<AtomicU64>,
}

impl Shared {
    /// Waits until all that was sent is answered, or until answers no longer come.
    pub(super) fn drain(&self, sent: u64) {
        let (mut answers, mut since) = (0, Instant::now());
        while answers < sent && since.elapsed() < SILENCE {
            let now = self.answers.load(Ordering::Relaxed);
            if now > answers {
                (answers, since) = (now, Instant::now());
            }
            thread::sleep(sockets::POLL / 10);
        }
    }
}

/// Threads of one stream.
pub(super) struct Threads {
    /// Sends; gives the account as the sender sees it.
    pub(super) client: JoinHandle<Result<Report>>,
    /// Answers; gives what only the receiver sees. None where the kernel answers.
    pub(super) server: Option<JoinHandle<Result<ServerSide>>>,
}

/// What only the receiving end of a stream sees.
#[derive(Default)]
pub(super) struct ServerSide {
    /// Packets that it sent back.
    pub(super) sent: u64,
    /// As in [`Report`].
    pub(super) reordered: u64,
    /// As in [`Report`].
    pub(super) duplicates: u64,
}

/// A running stream. Dropped without [`Stream::stop`] it ends unheard.
pub struct Stream {
    plan: Plan,
    shared: Shared,
    threads: Option<Threads>,
    before: [Counters; 2],
}

impl Stream {
    /// Starts the server in one namespace and the client in the other.
    pub fn start(plan: Plan) -> Result<Self> {
        Self::begin(plan, |plan, shared| match plan.kind {
            Kind::Udp => udp::start(plan, shared),
            Kind::Tcp => tcp::start(plan, shared),
            Kind::Ping => ping::start(plan, shared),
            Kind::Connect => connect::start(plan, shared),
        })
    }

    /// Starts the client alone: others answer, of whom one is where the plan says.
    pub fn ask(plan: Plan) -> Result<Self> {
        Self::begin(plan, |plan, shared| match plan.kind {
            Kind::Udp => udp::ask(plan, shared),
            Kind::Tcp => tcp::ask(plan, shared),
            Kind::Ping => ping::start(plan, shared),
            Kind::Connect => connect::ask(plan, shared),
        })
    }

    fn begin(plan: Plan, start: impl Fn(&Plan, &Shared) -> Result<Threads>) -> Result<Self> {
        let shared = Shared::default();
        let before = [Counters::read(&plan.from)?, Counters::read(&plan.to)?];
        let threads = start(&plan, &shared)
            .with_context(|| format!("cannot start {} to {}", plan.kind, plan.target))?;
        Ok(Self { plan, shared, threads: Some(threads), before })
    }

    /// How many answers came back so far.
    pub fn answers(&self) -> u64 {
        self.shared.answers.load(Ordering::Relaxed)
    }

    /// Lets it get that many further answers.
    pub fn wait_for_answers(&self, more: u64) -> Result<()> {
        let goal = self.answers() + more;
        let what = format!("{} to {} gets {more} answers", self.plan.kind, self.plan.target);
        wait_for(&what, || Ok(self.answers() >= goal))
    }

    /// Where it goes.
    pub fn target(&self) -> IpAddr {
        self.plan.target.ip()
    }

    /// Stops sending, waits for what is on its way, and reports.
    pub fn stop(mut self) -> Result<Report> {
        self.shared.stop.store(true, Ordering::Relaxed);
        let threads = self.threads.take().expect("taken only here");
        let report = threads.client.join().expect("a stream's thread does not panic");
        self.shared.close.store(true, Ordering::Relaxed);
        let server = threads.server.map(|thread| thread.join().expect("as above")).transpose()?;
        let mut report = report?;
        if let Some(server) = server {
            report.sent += server.sent;
            report.reordered += server.reordered;
            report.duplicates += server.duplicates;
        }
        if matches!(self.plan.kind, Kind::Tcp | Kind::Connect) {
            let ends = [&self.plan.from, &self.plan.to].into_iter().zip(&self.before);
            for (resent, (namespace, before)) in report.resent.iter_mut().zip(ends) {
                *resent = Counters::read(namespace)?.resent_since(before);
                report.lost += resent.lost();
            }
        }
        Ok(report)
    }
}

/// Stops streams one after the other.
pub fn stop_all(streams: impl IntoIterator<Item = Stream>) -> Result<Vec<Report>> {
    streams.into_iter().map(Stream::stop).collect()
}

/// Stops streams; fails unless nothing was lost in any of them.
pub fn stop_clean(streams: impl IntoIterator<Item = Stream>) -> Result<()> {
    let reports = stop_all(streams)?;
    let unclean: Vec<_> = reports.iter().filter(|report| !report.is_clean()).collect();
    ensure!(unclean.is_empty(), "{unclean:#?}");
    Ok(())
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.shared.close.store(true, Ordering::Relaxed);
    }
}
