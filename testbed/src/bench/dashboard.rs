//! What a page that looks on costs the agent, and whether the page keeps up, while a policy that
//! touches every endpoint changes ten times a second.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::{Figure, Options, Unit};
use crate::{
    fleet::{Fleet, NAMESPACE},
    lab::{Metrics, Node, Page, Through, cpu_time},
    picture::{browser_apart, loopback, open},
    progress::Progress,
};

/// Between two changes.
const BEAT: Duration = Duration::from_millis(100);
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
    let mut fleet = Fleet::launch(options.endpoints.into(), Through::Rest, &progress)?;
    let mut browser = browser_apart()?;
    let mut page = browser.page()?;
    page.before_each(WATCH)?;
    let mut watched = Figure::new("dashboard.cpu_watched", Unit::Seconds);
    let mut alone = Figure::new("dashboard.cpu_alone", Unit::Seconds);
    let mut rate = Figure::new("dashboard.messages", Unit::Count);
    let mut longest = Figure::new("dashboard.longest_task", Unit::Seconds).below(0.2);
    let mut behind = Figure::new("dashboard.behind", Unit::Seconds).below(1.0);
    let bar = progress.bar("looking on, and not", options.rounds.into());
    let over = AtomicBool::new(false);
    let pid = fleet.node.agent()?.pid();
    thread::scope(|scope| -> Result<()> {
        let (node, over) = (&fleet.node, &over);
        let changes = scope.spawn(move || change(node, over));
        let mut measure = || -> Result<()> {
            for _ in 0..options.rounds {
                page.open("about:blank")?;
                thread::sleep(WARM_UP);
                alone.push(cpu(pid, STRETCH)?.as_secs_f64() / STRETCH.as_secs_f64());
                open(&mut page)?;
                thread::sleep(WARM_UP);
                page.eval("void (window.longTasks.length = 0)")?;
                let before = handled(node)?;
                watched.push(cpu(pid, STRETCH)?.as_secs_f64() / STRETCH.as_secs_f64());
                rate.push((handled(node)? - before) / STRETCH.as_secs_f64());
                longest.push(number(&mut page, "Math.max(0, ...window.longTasks)")? / 1e3);
                behind.push(lag(&mut page, node)?);
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
    Ok(vec![rate, longest, behind, watched, alone])
}

/// Lets a pod that does not exist send to everyone, and takes it back, until it is over.
fn change(node: &Node, over: &AtomicBool) -> Result<()> {
    let namespace = json!({ "matchLabels": { "k8s:io.kubernetes.pod.namespace": NAMESPACE } });
    let mut port = 6000;
    while !over.load(Ordering::Relaxed) {
        let next = Instant::now() + BEAT;
        let manifest = json!({
            "apiVersion": "cilium.io/v2",
            "kind": "CiliumClusterwideNetworkPolicy",
            "metadata": { "name": "watched" },
            "spec": {
                "endpointSelector": namespace,
                "ingress": [{ "toPorts": [{ "ports": [
                    { "port": port.to_string(), "protocol": "TCP" },
                ] }] }],
            },
        });
        node.write_manifest("watched.yaml", &manifest.to_string())?;
        port = if port == 6000 { 6001 } else { 6000 };
        thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    Ok(())
}

/// Processor time that a process takes in that time.
fn cpu(pid: u32, span: Duration) -> Result<Duration> {
    let before = cpu_time(pid)?;
    thread::sleep(span);
    Ok(cpu_time(pid)?.saturating_sub(before))
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
