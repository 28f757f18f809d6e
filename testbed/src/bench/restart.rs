//! SIGKILL and start again, under traffic.

use std::{thread, time::Duration};

use anyhow::{Result, ensure};
use volvox_sim::random::Random;

use super::{Figure, Options, Unit, losses::Losses};
use crate::{
    fleet::Fleet,
    lab::{Inventory, Metrics},
    progress::Progress,
};

/// Series whose sum over endpoints' objects is `restart.kernel_writes`.
const WRITES: &str = "volvox_kernel_writes_total";

/// What is written with nothing changed: garbage is collected from connection tracking.
const APART: &str = "object=\"conntrack\"";

struct Figures {
    api: Figure,
    ready: Figure,
    cpu: Figure,
    memory: Figure,
    writes: Figure,
    moved: Figure,
}

/// Kills, starts and measures.
pub(super) fn run(options: &Options) -> Result<Vec<Figure>> {
    let progress = Progress::new(options.json);
    let count = usize::from(options.endpoints);
    let mut fleet = options.launch(&progress)?;
    let mut figures = Figures::new(count);
    let mut losses = Losses::new(["restart.lost", "restart.lost_control", "restart.longest_gap"]);
    let mut random = Random::new(options.seed);
    let bar = progress.bar("killing and restarting", options.rounds.into());
    losses.measure(&mut fleet, |fleet| {
        for _ in 0..options.rounds {
            let before = Inventory::read(&fleet.node)?;
            let ready = figures.round(fleet, count)?;
            crash_during_restart(fleet, random.below(ready))?;
            fleet.node.wait_for_ready(count)?;
            let moved = before.moved(&Inventory::read(&fleet.node)?);
            figures.moved.push_count(moved as u64);
            bar.inc(1);
        }
        Ok(())
    })?;
    bar.finish();
    Ok(figures.into_iter().chain(losses.figures()).collect())
}

/// Kills the agent, starts it, and kills it once more `after` its start; then it may live.
fn crash_during_restart(fleet: &mut Fleet, after: Duration) -> Result<()> {
    fleet.node.kill_agent()?;
    fleet.node.exec_agent()?;
    thread::sleep(after);
    fleet.node.kill_agent()?;
    fleet.node.exec_agent()
}

impl Figures {
    fn new(count: usize) -> Self {
        // Targets are set for some numbers of endpoints only.
        let figure = |name, unit, targets: &[(usize, f64)]| {
            let set = targets.iter().find(|(endpoints, _)| *endpoints == count);
            set.iter().fold(Figure::new(name, unit), |figure, (_, limit)| figure.below(*limit))
        };
        Self {
            api: figure("restart.api", Unit::Seconds, &[(250, 0.05)]),
            ready: figure("restart.ready", Unit::Seconds, &[(250, 0.15), (1000, 0.4)]),
            cpu: figure("restart.cpu", Unit::Seconds, &[(250, 0.15)]),
            memory: figure("restart.rss_peak", Unit::Megabytes, &[(250, 24.0), (1000, 40.0)]),
            writes: Figure::new("restart.kernel_writes", Unit::Count).zero(),
            moved: Figure::new("restart.moved", Unit::Count).zero(),
        }
    }

    /// One plain kill and restart; how long it took until all were ready.
    fn round(&mut self, fleet: &mut Fleet, count: usize) -> Result<Duration> {
        let node = &mut fleet.node;
        node.kill_agent()?;
        node.exec_agent()?;
        let api = node.wait_for_api()?;
        let ready = node.wait_for_ready(count)?;
        let usage = node.agent()?.usage()?;
        self.api.push_time(api);
        self.ready.push_time(ready);
        self.cpu.push_time(usage.cpu);
        self.memory.push(usage.memory_peak as f64 / 1e6);
        self.writes.push(writes(&Metrics::scrape(fleet.node.rest())?)?);
        Ok(ready)
    }

    fn into_iter(self) -> impl Iterator<Item = Figure> {
        [self.ready, self.api, self.cpu, self.memory, self.writes, self.moved].into_iter()
    }
}

/// Writes to kernel objects since the agent started.
fn writes(metrics: &Metrics) -> Result<f64> {
    let all: Vec<_> = metrics.family(WRITES).collect();
    ensure!(!all.is_empty(), "the agent has no metric {WRITES}");
    let counted = all.iter().filter(|(labels, _)| !labels.contains(APART));
    Ok(counted.map(|(_, value)| value).sum())
}
