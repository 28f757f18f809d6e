//! Flows: what keeping them costs while nobody looks and while one follows, how late a follower's line is,
//! whether all that is lost is told, and what a SIGKILL leaves.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{SocketAddr, UdpSocket},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use prost::Message;
use tokio::time::timeout;
use volvox_hubble::{
    client::HubbleClient,
    messages::{FlowFilter, FlowsResponse, GetFlowsRequest, GetFlowsResponse, Protocol, Timestamp},
};

use super::{Figure, Options, Unit};
use crate::{
    lab::{self, Node, Pod, Setup, wait_for},
    progress::Progress,
};

/// Flows a second by which cost is told.
const RATE: f64 = 5_000.0;
/// Packets a second that make about so many flows: each is seen as it leaves, and as it arrives.
const PACKETS: u64 = 2_500;
/// How long each cost is measured.
const SPAN: Duration = Duration::from_secs(8);
/// Packets of which each has a port of its own, to know it again.
const MARKED: u16 = 400;
const MARKED_EVERY: Duration = Duration::from_millis(10);
/// Packets that are sent as fast as 20,000 flows a second.
const FAST: u64 = 10_000;
/// Where a pod sends to.
const PORT: u16 = 9;

/// A pod that sends to another, at a rate.
struct Sender {
    stop: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
    thread: JoinHandle<Result<()>>,
}

impl Sender {
    fn start(from: &Pod, to: &Pod, rate: u64) -> Result<Self> {
        let target = SocketAddr::new(to.address(false)?, PORT);
        let socket = from.netns.run(|| Ok(UdpSocket::bind("0.0.0.0:0")?))?;
        let (stop, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stopped, count) = (Arc::clone(&stop), Arc::clone(&sent));
        let thread = thread::spawn(move || {
            let begun = Instant::now();
            while !stopped.load(Ordering::Relaxed) {
                let due = (begun.elapsed().as_secs_f64() * rate as f64) as u64;
                while count.load(Ordering::Relaxed) < due {
                    socket.send_to(b"flow", target)?;
                    count.fetch_add(1, Ordering::Relaxed);
                }
                thread::sleep(Duration::from_millis(1));
            }
            Ok(())
        });
        Ok(Self { stop, sent, thread })
    }

    /// Stops; how many packets were sent.
    fn stop(self) -> Result<u64> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| anyhow::anyhow!("the sender panicked"))??;
        Ok(self.sent.load(Ordering::Relaxed))
    }
}

fn socket() -> PathBuf {
    lab::path("hubble.sock")
}

pub(super) fn run(options: &Options) -> Result<Vec<Figure>> {
    let progress = Progress::new(options.json);
    let path = socket().display().to_string();
    let setup = Setup::new()
        .flag("enable-hubble", "true")
        .flag("hubble-socket-path", &path)
        .flag("hubble-event-buffer-capacity", "65535")
        .flag("monitor-aggregation", "none");
    let (mut node, pods) =
        setup.pod("shop/web", &[("app", "web")]).pod("shop/db", &[("app", "db")]).start()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut cost = Figure::new("observe.cost", Unit::Percent).below(3.0);
    let mut followed = Figure::new("observe.cost_followed", Unit::Percent).below(8.0);
    let mut latency = Figure::new("observe.latency", Unit::Seconds).below(0.02);
    let mut lost = Figure::new("observe.lost_untold", Unit::Count).zero();
    let mut told = Figure::new("observe.lost_told", Unit::Count);
    let mut kept = Figure::new("observe.kept_missing", Unit::Count);
    let bar = progress.bar("flows", options.rounds.into());
    for _ in 0..options.rounds {
        cost.push(share(&mut node, &pods, None)?);
        let stop = Arc::new(AtomicBool::new(false));
        let follower = follow(Arc::clone(&stop));
        followed.push(share(&mut node, &pods, Some(&stop))?);
        follower.join().map_err(|_| anyhow::anyhow!("the follower panicked"))??;
        latency.push_time(runtime.block_on(late(&pods))?);
        let (untold, count) = runtime.block_on(blast(&pods))?;
        lost.push_count(untold);
        told.push_count(count);
        kept.push_count(killed(&mut node, &pods, &runtime)?);
        bar.inc(1);
    }
    bar.finish();
    Ok(vec![cost, followed, latency, lost, told, kept])
}

async fn seen() -> Result<u64> {
    Ok(HubbleClient::connect(&socket()).await?.status().await?.seen_flows)
}

/// The agent's share of a processor beside what it takes without flows, for 5,000 of them a second.
fn share(node: &mut Node, [web, db]: &[Pod; 2], stop: Option<&AtomicBool>) -> Result<f64> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let idle = used(node, SPAN)?;
    let sender = Sender::start(web, db, PACKETS)?;
    let before = runtime.block_on(seen())?;
    let busy = used(node, SPAN)?;
    let flows = runtime.block_on(seen())?.saturating_sub(before);
    sender.stop()?;
    if let Some(stop) = stop {
        stop.store(true, Ordering::Relaxed);
    }
    let rate = flows as f64 / SPAN.as_secs_f64();
    anyhow::ensure!(rate > RATE / 4.0, "only {rate:.0} flows a second were made");
    Ok((busy - idle) * 100.0 * RATE / rate)
}

/// Processor time a second.
fn used(node: &mut Node, span: Duration) -> Result<f64> {
    let (before, begun) = (node.agent()?.usage()?.cpu, Instant::now());
    thread::sleep(span);
    Ok((node.agent()?.usage()?.cpu - before).as_secs_f64() / begun.elapsed().as_secs_f64())
}

/// Follows everything, and reads it.
fn follow(stop: Arc<AtomicBool>) -> JoinHandle<Result<u64>> {
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let client = HubbleClient::connect(&socket()).await?;
            let request = GetFlowsRequest { follow: true, ..GetFlowsRequest::default() };
            let mut answers = client.flows(&request).await?;
            let mut count = 0;
            while !stop.load(Ordering::Relaxed) {
                if let Ok(answer) = timeout(Duration::from_millis(100), answers.next()).await {
                    count += u64::from(answer?.is_some());
                }
            }
            Ok(count)
        })
    })
}

fn to_db(follow: bool, since: Option<Timestamp>) -> GetFlowsRequest {
    let destination_port = vec![PORT.to_string()];
    let whitelist = vec![FlowFilter { destination_port, ..FlowFilter::default() }];
    GetFlowsRequest { follow, whitelist, since, ..GetFlowsRequest::default() }
}

/// The port that a flow came from, or how many are lost.
fn read(bytes: &[u8]) -> Result<(Option<u16>, u64)> {
    Ok(match GetFlowsResponse::decode(bytes)?.response {
        Some(FlowsResponse::Flow(flow)) => match flow.l4.and_then(|it| it.protocol) {
            Some(Protocol::Udp(ports)) => (u16::try_from(ports.source_port).ok(), 0),
            _ => (None, 0),
        },
        Some(FlowsResponse::LostEvents(lost)) => (None, lost.num_events_lost),
        _ => (None, 0),
    })
}

/// How long it takes from a packet to a follower's line: what 99 of 100 are at most.
async fn late([web, db]: &[Pod; 2]) -> Result<Duration> {
    let client = HubbleClient::connect(&socket()).await?;
    let mut answers = client.flows(&to_db(true, None)).await?;
    let target = SocketAddr::new(db.address(false)?, PORT);
    let mut sent: BTreeMap<u16, Instant> = BTreeMap::new();
    let mut times = Figure::new("latency", Unit::Seconds);
    for _ in 0..MARKED {
        let socket = web.netns.run(|| Ok(UdpSocket::bind("0.0.0.0:0")?))?;
        sent.insert(socket.local_addr()?.port(), Instant::now());
        socket.send_to(b"flow", target)?;
        let until = tokio::time::Instant::now() + MARKED_EVERY;
        while let Ok(answer) = tokio::time::timeout_at(until, answers.next()).await {
            let (port, _) = read(&answer?.context("the stream ended")?)?;
            if let Some(at) = port.and_then(|port| sent.remove(&port)) {
                times.push_time(at.elapsed());
            }
        }
    }
    anyhow::ensure!(sent.len() < usize::from(MARKED / 10), "{} were never seen", sent.len());
    Ok(Duration::from_secs_f64(times.high()))
}

/// Sends as many as 20,000 flows a second; how many a follower neither saw nor was told of, and how many
/// it was told of.
async fn blast([web, db]: &[Pod; 2]) -> Result<(u64, u64)> {
    let client = HubbleClient::connect(&socket()).await?;
    let mut answers = client.flows(&to_db(true, None)).await?;
    // How many records one packet makes.
    let first = Sender::start(web, db, 100)?;
    let (few, _, sent) = count(&mut answers, Duration::from_secs(2), first).await?;
    let each = (few as f64 / sent.max(1) as f64).round() as u64;
    let sender = Sender::start(web, db, FAST)?;
    let (seen, told, sent) = count(&mut answers, Duration::from_secs(4), sender).await?;
    Ok(((sent * each).saturating_sub(seen + told), told))
}

/// Counts flows and what is lost while somebody sends and until nothing comes any more.
async fn count(
    answers: &mut volvox_hubble::client::HubbleAnswers,
    span: Duration,
    sender: Sender,
) -> Result<(u64, u64, u64)> {
    let (mut flows, mut lost, mut sender) = (0, 0, Some(sender));
    let (until, mut sent) = (Instant::now() + span, 0);
    loop {
        if Instant::now() >= until
            && let Some(sender) = sender.take()
        {
            sent = sender.stop()?;
        }
        match timeout(Duration::from_secs(3), answers.next()).await {
            Ok(answer) => {
                let (port, missed) = read(&answer?.context("the stream ended")?)?;
                flows += u64::from(port.is_some());
                lost += missed;
            }
            Err(_) if sender.is_none() => return Ok((flows, lost, sent)),
            Err(_) => {}
        }
    }
}

/// Kills the agent amid flows of known ports; how many of those of the last ten seconds the next one does
/// not show.
fn killed(node: &mut Node, [web, db]: &[Pod; 2], runtime: &tokio::runtime::Runtime) -> Result<u64> {
    let target = SocketAddr::new(db.address(false)?, PORT);
    let since = Timestamp::now();
    let mut sent = BTreeSet::new();
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(10) {
        let socket = web.netns.run(|| Ok(UdpSocket::bind("0.0.0.0:0")?))?;
        socket.send_to(b"flow", target)?;
        sent.insert(socket.local_addr()?.port());
        thread::sleep(Duration::from_millis(5));
    }
    node.kill_agent()?;
    node.start_agent()?;
    node.wait_for_ready(2)?;
    wait_for("Hubble answers", || Ok(runtime.block_on(seen()).is_ok()))?;
    let found = runtime.block_on(async {
        let client = HubbleClient::connect(&socket()).await?;
        let mut answers = client.flows(&to_db(false, Some(since))).await?;
        let mut found = BTreeSet::new();
        while let Some(bytes) = answers.next().await? {
            found.extend(read(&bytes)?.0);
        }
        anyhow::Ok(found)
    })?;
    Ok(sent.difference(&found).count() as u64)
}
