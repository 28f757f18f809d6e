//! What it costs to compare all rows of the kernel with what was written.

use std::{net::SocketAddr, thread, time::Duration};

use anyhow::Result;
use serde_json::Value;

use super::{Figure, Options, Unit};
use crate::{
    fleet::Fleet,
    lab::{
        Node,
        objects::{list, service, slice},
    },
    progress::Progress,
};

/// Services, unless fewer are asked for: each has a frontend and a backend of its own.
const SERVICES: u32 = 5_000;
/// Time between two sweeps unless configured otherwise, seconds.
const EVERY: f64 = 30.0;
/// Sweeps that are measured together, one a second.
const SWEEPS: u32 = 20;
const INTERVAL: &str = "endpoint-bpf-prog-watchdog-interval";

/// Lets an agent that is at rest sweep once a second, and holds it against one that never does.
pub(super) fn run(options: &Options) -> Result<Vec<Figure>> {
    let progress = Progress::new(options.json);
    let mut sweep = Figure::new("drift.sweep", Unit::Seconds);
    let mut share = Figure::new("drift.share", Unit::Percent).below(0.5);
    let mut growth = Figure::new("drift.rss", Unit::Megabytes);
    let mut fleet = options.launch(&progress)?;
    let services = SERVICES.min(options.services);
    fleet.node.write_manifest("services.yaml", &list(&objects(services)?))?;
    let bar = progress.bar("measuring sweeps", options.rounds.into());
    for _ in 0..options.rounds {
        let (without, small) = used(&mut fleet, services, "0s")?;
        let (with, large) = used(&mut fleet, services, "1s")?;
        let each = (with - without) / f64::from(SWEEPS);
        sweep.push(each);
        share.push(each / EVERY * 100.0);
        growth.push(large - small);
        bar.inc(1);
    }
    bar.finish();
    Ok(vec![sweep, share, growth])
}

/// Processor time in seconds that an agent at rest takes over so many seconds as there are sweeps, and
/// the memory that it then has, with that time between two sweeps.
fn used(fleet: &mut Fleet, services: u32, interval: &str) -> Result<(f64, f64)> {
    let endpoints = fleet.pods.len();
    let node = &mut fleet.node;
    node.kill_agent()?;
    node.set_flag(INTERVAL, Some(interval));
    node.start_agent()?;
    node.wait_for_ready(endpoints)?;
    node.wait("services are not written", |node| is_served(node, services))?;
    // What restoring leaves to be done in the background is done.
    thread::sleep(Duration::from_secs(5));
    let before = node.agent()?.usage()?.cpu;
    thread::sleep(Duration::from_secs(SWEEPS.into()));
    let usage = node.agent()?.usage()?;
    Ok(((usage.cpu - before).as_secs_f64(), usage.memory_peak as f64 / 1e6))
}

fn is_served(node: &Node, services: u32) -> Result<bool> {
    let summary: Value = node.rest().get("/volvox/services")?;
    let count = |name: &str| summary[name].as_u64().unwrap_or_default();
    Ok(count("frontends") == u64::from(services) && count("open") + count("unread") == 0)
}

/// Services, each of one backend.
fn objects(services: u32) -> Result<Vec<Value>> {
    let mut all = Vec::new();
    for number in 0..services {
        let (high, low) = (number / 250, number % 250 + 1);
        let name = format!("s{number}");
        let at: SocketAddr = format!("10.96.{high}.{low}:80").parse()?;
        let backend = format!("10.200.{high}.{low}").parse()?;
        all.push(service(&name, at, "TCP"));
        all.push(slice(&name, &name, "TCP", 8080, &[backend]));
    }
    Ok(all)
}
