//! `cargo testbed sim`: one history in words, or many and what came of them.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use clap::Args;
use rustix::time::{ClockId, clock_gettime};
use serde_json::json;

use super::{
    mutants,
    parallel::{all, threads},
    shrink::{pick, shrink},
};
use crate::{
    history::{action::Action, draw::draw, scenarios},
    operators::{self, OperatorsTally},
    record::trace::Trace,
    runner::{Failure, Tally},
    world::node::Node,
};

/// How many failures are made short.
const SHRUNK_MAX: usize = 5;

/// What to simulate.
#[derive(Clone, Debug, Default, Args)]
pub struct Options {
    /// How many histories to live through
    #[arg(long, default_value_t = 1_000)]
    pub seeds: u64,
    /// The first of them
    #[arg(long, default_value_t = 1, conflicts_with_all = ["seed", "mutants"])]
    pub from: u64,
    /// One history, told line by line
    #[arg(long)]
    pub seed: Option<u64>,
    /// Of that history, only the actions at these places (as a shrunk failure is printed)
    #[arg(long, value_delimiter = ',', requires = "seed")]
    pub only: Option<Vec<usize>>,
    /// Keep the flight recorder's records of its last life in this file, of those before beside it:
    /// for `volvox trace --life FILE` and `volvox dashboard FILE`
    #[arg(long, value_name = "FILE", requires = "seed")]
    pub write: Option<PathBuf>,
    /// A scenario by name instead of random histories; `list` names them
    #[arg(long)]
    pub scenario: Option<String>,
    /// Switch known bugs in, one after the other, and count the seeds that each takes
    #[arg(long)]
    pub mutants: bool,
    /// The same with this one only
    #[arg(long, value_name = "NAME", conflicts_with = "mutants")]
    pub mutant: Option<String>,
    /// Histories of operators of a cluster instead of a node's
    #[arg(long, conflicts_with_all = ["only", "write", "scenario", "mutants", "mutant"])]
    pub operators: bool,
    /// Figures as JSON, one line each
    #[arg(long)]
    pub json: bool,
}

impl Options {
    /// The history of a seed.
    fn actions(&self, seed: u64) -> Result<Vec<Action>> {
        let Some(name) = &self.scenario else { return Ok(draw(seed)) };
        let found = scenarios::find(name);
        let found = found.with_context(|| format!("no scenario {name}: try --scenario list"))?;
        Ok(found.actions(seed))
    }
}

/// Simulates and prints; the exit code.
pub fn run(options: &Options) -> Result<i32> {
    if options.scenario.as_deref() == Some("list") {
        scenarios::ALL.iter().for_each(|scenario| volvox_system::say!("{}", scenario.name));
        return Ok(0);
    }
    if options.mutants || options.mutant.is_some() {
        return mutants::run(options.mutant.as_deref(), options.json);
    }
    match options.seed {
        _ if options.operators => of_operators(options),
        Some(seed) => one(options, seed),
        None => many(options),
    }
}

/// Histories of operators: one in words, or many.
fn of_operators(options: &Options) -> Result<i32> {
    if let Some(seed) = options.seed {
        let outcome = operators::live(seed, |what| volvox_system::say!("{what}"));
        return Ok(match outcome {
            Ok(OperatorsTally { started, steps }) => {
                volvox_system::say!("well: {started} operators, {steps} steps");
                0
            }
            Err(failure) => {
                volvox_system::say!("FAILED behind action {}: {}", failure.at, failure.what);
                1
            }
        });
    }
    let last = options.from.saturating_add(options.seeds).saturating_sub(1);
    let (total, failed) = all(options.from..=last, |seed| {
        let tally = operators::live(seed, |_| ())?;
        Ok(Tally { lives: tally.started, records: tally.steps, ..Tally::default() })
    });
    for (seed, failure) in failed.iter().take(SHRUNK_MAX) {
        volvox_system::say!("cargo testbed sim --operators --seed {seed}: {}", failure.what);
    }
    let (operators, steps) = (total.lives, total.records);
    volvox_system::say!(
        "{} histories of {operators} operators in {steps} steps: {} failed",
        options.seeds,
        failed.len()
    );
    Ok(i32::from(!failed.is_empty()))
}

/// One history, in words.
fn one(options: &Options, seed: u64) -> Result<i32> {
    let mut actions = options.actions(seed)?;
    if let Some(only) = &options.only {
        actions = pick(&actions, only);
    }
    let trace = Trace::in_words();
    if options.write.is_some() {
        trace.keep_flights();
    }
    let outcome = Node::new(trace.clone()).run(&actions);
    volvox_system::say!(
        "── what happens to the node · message: from → to, kind · state: of an endpoint"
    );
    volvox_system::say!("   kernel: a step that was done · no answer: who waited goes on without");
    volvox_system::say!("   in front: seconds of virtual time since the first agent's start");
    trace.lines().iter().for_each(|line| volvox_system::say!("{line}"));
    if let Some(file) = &options.write {
        let written = trace.write_flights(file)?;
        let names: Vec<_> = written.iter().map(|path| path.display().to_string()).collect();
        volvox_system::say!("written, the last life first: {}", names.join(" "));
    }
    match outcome {
        Ok(tally) => {
            volvox_system::say!("well: {} lives, trace {:016x}", tally.lives, tally.hash);
            Ok(0)
        }
        Err(failure) => {
            volvox_system::say!("FAILED behind action {}: {}", failure.at, failure.what);
            Ok(1)
        }
    }
}

/// Many histories, on all processors.
fn many(options: &Options) -> Result<i32> {
    options.actions(1)?;
    let started = Instant::now();
    let last = options.from.saturating_add(options.seeds).saturating_sub(1);
    let (total, failed) = all(options.from..=last, |seed| {
        let actions = options.actions(seed).unwrap_or_default();
        let began = cpu_time();
        let tally = Node::new(Trace::default()).run(&actions)?;
        Ok(Tally { cpu: cpu_time() - began, ..tally })
    });
    let seconds = started.elapsed().as_secs_f64();
    let threads = threads().min(options.seeds as usize).max(1);
    let rate = total.lives as f64 / seconds / threads as f64;
    let cpu_rate = total.lives as f64 / total.cpu.as_secs_f64();
    if options.json {
        let figure = |name: &str, value: f64| {
            volvox_system::say!("{}", json!({ "name": name, "value": value }))
        };
        figure("sim.lifetimes_per_second", rate);
        figure("sim.lifetimes_per_cpu_second", cpu_rate);
        figure("sim.lifetimes", total.lives as f64);
        figure("sim.endpoints_per_lifetime", total.endpoints as f64 / total.lives.max(1) as f64);
        figure("sim.verdicts", total.verdicts as f64);
        figure("sim.failures", failed.len() as f64);
    } else {
        volvox_system::say!(
            "{} histories, {} lifetimes of the agent, {} verdicts, {seconds:.1} s: {rate:.0} \
             lifetimes a second and core, {cpu_rate:.0} by processor time; {} failed",
            options.seeds,
            total.lives,
            total.verdicts,
            failed.len()
        );
    }
    for (seed, failure) in failed.iter().take(SHRUNK_MAX) {
        tell(options, *seed, failure)?;
    }
    if let Some(rest) = failed.get(SHRUNK_MAX..).filter(|rest| !rest.is_empty()) {
        volvox_system::say!("\nthe others:");
        rest.iter()
            .for_each(|(seed, failure)| volvox_system::say!("  seed {seed}: {}", failure.what));
    }
    Ok(i32::from(!failed.is_empty()))
}

/// A failure made short, with the command that shows it again.
fn tell(options: &Options, seed: u64, failure: &Failure) -> Result<()> {
    volvox_system::say!("\nseed {seed} failed behind action {}: {}", failure.at, failure.what);
    let actions = options.actions(seed)?;
    let (left, failure) = shrink(&actions, failure.clone());
    volvox_system::say!("as short as it gets, {} of {} actions:", left.len(), actions.len());
    left.iter().for_each(|&place| volvox_system::say!("  {place:3} {}", actions[place]));
    volvox_system::say!("  {}", failure.what);
    let only: Vec<String> = left.iter().map(ToString::to_string).collect();
    let scenario = options.scenario.as_ref().map(|name| format!(" --scenario {name}"));
    volvox_system::say!(
        "again: cargo testbed sim{} --seed {seed} --only {}",
        scenario.unwrap_or_default(),
        only.join(",")
    );
    Ok(())
}

/// Processor time of this thread.
fn cpu_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32)
}
