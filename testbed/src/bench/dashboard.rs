//! What a page that looks on costs the agent and the browser, and whether it keeps up, while the
//! actors handle so many messages a second as no node does for long, and pods talk.

use std::{
    path::PathBuf,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};
use volvox_hubble::client::HubbleClient;

use super::{Figure, Options, Unit};
use crate::{
    fleet::{Fleet, NAMESPACE},
    lab::{self, Binaries, Metrics, Node, Page, Through, cpu_time},
    picture::{VIEWS, browser_apart, loopback, open},
    progress::Progress,
    traffic::Kind,
};

/// Messages a second that policies are changed for.
const RATE: f64 = 5_000.0;
/// Packets a second of a stream that is answered: of each packet its leaving and its arrival are told.
const PACKETS: u32 = 250;
/// Between two changes at first, and within which bounds that is made to fit.
const BEAT: Duration = Duration::from_millis(300);
const BEATS: [f64; 2] = [0.02, 2.0];
/// How often it is made to fit.
const FITTING: Duration = Duration::from_secs(2);
/// How long each state is measured for in a round.
const STRETCH: Duration = Duration::from_secs(4);
/// How long a state is let be before it is measured.
const WARM_UP: Duration = Duration::from_secs(2);

/// Notes tasks of the page that kept it from answering for 50 ms and more.
const WATCH: &str = "window.longTasks = []; new PerformanceObserver((list) => { \
    for (const task of list.getEntries()) window.longTasks.push(task.duration); \
    }).observe({ type: 'longtask', buffered: true });";

/// Measures with and without the page, in turn.
pub(super) fn run(options: &Options) -> Result<Vec<Figure>> {
    let progress = Progress::new(options.json);
    loopback()?;
    let mut fleet = launch(options, &progress)?;
    let stream = fleet.stream(Kind::Udp, 0, 1, false, PACKETS)?;
    let mut browser = browser_apart()?;
    let mut page = browser.page()?;
    page.before_each(WATCH)?;
    let mut rate = Figure::new("dashboard.messages", Unit::Count);
    let mut behind = Figure::new("dashboard.behind", Unit::Seconds).below(1.0);
    let mut flows = Figure::new("dashboard.flows", Unit::Count);
    let mut longest = Figure::new("dashboard.longest_task", Unit::Seconds).below(0.1);
    let mut page_cpu = Figure::new("dashboard.page_cpu", Unit::Percent);
    let mut watched = Figure::new("dashboard.agent_cpu_watched", Unit::Percent);
    let mut alone = Figure::new("dashboard.agent_cpu_alone", Unit::Percent);
    let bar = progress.bar("looking on, and not", options.rounds.into());
    let over = AtomicBool::new(false);
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let pid = fleet.node.agent()?.pid();
    thread::scope(|scope| -> Result<()> {
        let (node, over) = (&fleet.node, &over);
        let changes = scope.spawn(move || change(node, over));
        // A round need not see all views: the next goes on where it ended.
        let mut views = VIEWS.into_iter().cycle();
        let mut measure = || -> Result<()> {
            for _ in 0..options.rounds {
                page.open("about:blank")?;
                thread::sleep(WARM_UP);
                alone.push(percent(pid, STRETCH, || Ok(()))?);
                open(&mut page)?;
                thread::sleep(WARM_UP);
                page.eval("void (window.longTasks.length = 0)")?;
                let (before, begun, busy) = (handled(node)?, Instant::now(), page.busy()?);
                let seen = seen_flows(&runtime)?;
                watched.push(percent(pid, STRETCH / VIEWS.len() as u32, || {
                    behind.push(lag(&mut page, node)?);
                    let next = views.next().unwrap_or_default();
                    page.eval(&format!("void (location.hash = '#/{next}')")).map(drop)
                })?);
                let span = begun.elapsed().as_secs_f64();
                page_cpu.push((page.busy()? - busy).as_secs_f64() / span * 100.0);
                rate.push((handled(node)? - before) / span);
                flows.push((seen_flows(&runtime)? - seen) as f64 / span);
                longest.push(number(&mut page, "Math.max(0, ...window.longTasks)")? / 1e3);
                bar.inc(1);
            }
            Ok(())
        };
        let measured = measure();
        over.store(true, Ordering::Relaxed);
        changes.join().expect("the changes end")?;
        measured
    })?;
    bar.finish();
    stream.stop()?;
    Ok(vec![rate, flows, behind, longest, page_cpu, watched, alone])
}

/// A fleet whose flows are kept.
fn launch(options: &Options, progress: &Progress) -> Result<Fleet> {
    let mut node = Node::new(Binaries::find()?)?;
    let socket = format!("--hubble-socket-path={}", socket().display());
    node.flags(&["--enable-hubble=true", &socket, "--monitor-aggregation=none"]);
    options.add_flags(&mut node);
    Fleet::launch_on(node, options.endpoints.into(), Through::Rest, progress)
}

fn socket() -> PathBuf {
    lab::path("hubble.sock")
}

/// Flows that this life of the agent kept.
fn seen_flows(runtime: &Runtime) -> Result<u64> {
    runtime
        .block_on(async { Ok(HubbleClient::connect(&socket()).await?.status().await?.seen_flows) })
}

/// Lets everybody into one app after the other, at a port that changes, until it is over; as often
/// as it takes for the actors to have so many messages to handle.
fn change(node: &Node, over: &AtomicBool) -> Result<()> {
    let mut beat = BEAT;
    let (mut since, mut before) = (Instant::now(), handled(node)?);
    for turn in 0_u32.. {
        if over.load(Ordering::Relaxed) {
            break;
        }
        let next = Instant::now() + beat;
        let app = format!("app-{}", turn % 10);
        let port = 6000 + turn / 10 % 2;
        let manifest = json!({
            "apiVersion": "cilium.io/v2",
            "kind": "CiliumNetworkPolicy",
            "metadata": { "namespace": NAMESPACE, "name": format!("watched-{app}") },
            "spec": {
                "endpointSelector": { "matchLabels": { "app": app } },
                "ingress": [{ "toPorts": [{ "ports": [
                    { "port": port.to_string(), "protocol": "TCP" },
                ] }] }],
            },
        });
        node.write_manifest(&format!("watched-{app}.yaml"), &manifest.to_string())?;
        if since.elapsed() >= FITTING {
            let now = handled(node)?;
            let rate = (now - before) / since.elapsed().as_secs_f64();
            let fitting = beat.as_secs_f64() * (rate / RATE).clamp(0.5, 2.0);
            beat = Duration::from_secs_f64(fitting.clamp(BEATS[0], BEATS[1]));
            (since, before) = (Instant::now(), now);
        }
        thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    Ok(())
}

/// Processor time that a process takes while eyes rest and look in turn, in hundredths of one
/// processor.
fn percent(pid: u32, rest: Duration, mut look: impl FnMut() -> Result<()>) -> Result<f64> {
    let (begun, before) = (Instant::now(), cpu_time(pid)?);
    while begun.elapsed() < STRETCH {
        thread::sleep(rest);
        look()?;
    }
    let took = cpu_time(pid)?.saturating_sub(before);
    Ok(took.as_secs_f64() / begun.elapsed().as_secs_f64() * 100.0)
}

/// Messages that the actors have handled so far.
fn handled(node: &Node) -> Result<f64> {
    let metrics = Metrics::scrape(node.rest())?;
    Ok(metrics.family("volvox_actor_messages_handled").map(|(_, value)| value).sum())
}

/// How long it takes until the page shows what has been recorded by now, seconds.
fn lag(page: &mut Page<'_>, node: &Node) -> Result<f64> {
    let flight: Value = node.rest().get("/volvox/flight")?;
    let records = flight["records"].as_u64().context("the agent counts no records")?;
    let begun = Instant::now();
    page.wait(&format!("Number(document.body.dataset.seq) >= {records}"))?;
    Ok(begun.elapsed().as_secs_f64())
}

fn number(page: &mut Page<'_>, expression: &str) -> Result<f64> {
    page.eval(expression)?.as_f64().with_context(|| format!("{expression} is no number"))
}
