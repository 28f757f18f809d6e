//! The world of real processes: a node of the lab with its pods, and a history that happens to it.

mod applied;
mod cluster;
mod deaths;
mod ending;
mod faults;
mod flows;
mod recordings;
mod removal;
mod resources;
mod servers;
mod services;
mod steps;
mod stretch;

use std::{
    collections::BTreeMap,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use volvox_sim::random::Random;

use resources::Scarcity;
pub(super) use resources::{controllers, missing};
use servers::Servers;

use super::{
    explain,
    history::{History, Labels, ManifestName, Name, Step},
    mutant,
    outcome::{Done, Outcome, Place},
};
use crate::{
    fleet::wait_for_links,
    judge::{Finding, Judge, Leftovers, Measure, leftovers},
    lab::{Binaries, Disk, ForeignProgram, Injection, Node, Pod, cni},
    progress::Progress,
    traffic::Responder,
};

/// A node and all that is around it.
pub(super) struct World<'a> {
    history: &'a History,
    node: Node,
    usual: Binaries,
    around: Surroundings,
    pods: BTreeMap<Name, Member>,
    /// Pods that were not made because the agent died meanwhile.
    pending: BTreeMap<Name, Labels>,
    /// Of these, what is there still until there is an agent again.
    half_made: Vec<Pod>,
    /// Whether a runtime waits for an agent before it removes what it got no answer for.
    retries_late: bool,
    manifests: BTreeMap<ManifestName, serde_json::Value>,
    judge: Judge,
    flows: flows::Flows,
    /// What will kill the agent that runs.
    doom: Option<Injection>,
    /// Who dies of it is followed by another one at once.
    restarts: bool,
    /// How often that happened.
    restarted: u32,
    random: Random,
    lives: Vec<Life>,
    /// There before the first pod.
    before: Leftovers,
    begun: Instant,
    /// When agents died.
    deaths: Vec<Instant>,
}

/// What is around a node, and to which something may happen.
struct Surroundings {
    servers: Servers,
    /// One that may fail whole.
    disk: Option<Disk>,
    /// Whatever is asked of it is an error.
    disk_fails: bool,
    scarcity: Scarcity,
    /// Programs of somebody else.
    foreign: Vec<ForeignProgram>,
}

/// A pod with what belongs to it.
struct Member {
    pod: Pod,
    labels: Labels,
    /// Answers for the services that it is behind, by whether it is UDP, and port.
    responders: BTreeMap<(bool, u16), Responder>,
}

/// How long a start took.
struct Life {
    api: Duration,
    ready: Duration,
}

/// Something is not as a guarantee has it: the history is judged, and not well.
#[derive(Debug)]
struct Broken(String);

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Broken {}

/// Turns a failure into one that is judged.
fn broken<T>(outcome: Result<T>) -> Result<T> {
    outcome.map_err(|error| Broken(format!("{error:#}")).into())
}

/// Lives through a history, within the lab; what its agents recorded is put into that directory.
pub(super) fn live(history: &History, seed: u64, recordings: Option<&Path>) -> Outcome {
    let begun = Instant::now();
    let mut outcome = Outcome::new(&history.name, Place::Lab, seed);
    if let Err(error) = happen(history, seed, recordings, &mut outcome) {
        match error.downcast_ref::<Broken>() {
            Some(Broken(what)) => {
                outcome.findings.push(Finding::new(Measure::NotReady, Some(1.0), 0.0, what));
            }
            None => outcome.error = Some(format!("{error:#}")),
        }
    }
    outcome.took = begun.elapsed().as_secs_f64();
    outcome.judge();
    outcome
}

fn happen(
    history: &History,
    seed: u64,
    recordings: Option<&Path>,
    outcome: &mut Outcome,
) -> Result<()> {
    let mut world = World::begin(history, seed)?;
    world.settle()?;
    world.begin_traffic(&history.traffic)?;
    world.begun = Instant::now();
    let lived = world.steps(&history.steps, outcome);
    let ended = lived.and_then(|()| world.end(outcome));
    outcome.deaths = world.deaths.iter().map(|at| world.seconds(*at)).collect();
    if let Some(place) = recordings {
        let faults = recordings::faults(outcome, world.begun.elapsed());
        outcome.recordings = recordings::keep(&world.node, place, &faults)?;
    }
    ended
}

impl<'a> World<'a> {
    /// A node whose agent runs, without pods.
    fn begin(history: &'a History, seed: u64) -> Result<Self> {
        let usual = mutant::binaries()?;
        let mut node = Node::new(usual.clone())?;
        let disk = faults::prepare(history, &node)?;
        let scarcity = Scarcity::prepare(history, &mut node)?;
        let servers = Servers::start(history, &mut node)?;
        for (flag, value) in &history.flags {
            node.set_flag(flag, Some(value));
        }
        node.start_agent().context("the agent does not start with the flags of the history")?;
        node.wait_until_restored()?;
        let before = leftovers(&node)?;
        let judge = Judge::begin(&node)?;
        let mut world = Self {
            history,
            node,
            usual,
            around: Surroundings {
                servers,
                disk,
                disk_fails: false,
                scarcity,
                foreign: Vec::new(),
            },
            pods: BTreeMap::new(),
            pending: BTreeMap::new(),
            half_made: Vec::new(),
            retries_late: false,
            manifests: BTreeMap::new(),
            judge,
            flows: flows::Flows::default(),
            doom: None,
            restarts: false,
            restarted: 0,
            random: Random::new(seed),
            lives: Vec::new(),
            before,
            begun: Instant::now(),
            deaths: Vec::new(),
        };
        world.apply(&history.manifests)?;
        world.make_all()?;
        Ok(world)
    }

    /// A node of a gauntlet, with its pods, all ready.
    pub(super) fn launch(history: &'a History) -> Result<Self> {
        let mut world = Self::begin(history, 1)?;
        world.settle()?;
        wait_for_links(&mut world.node, world.pods.len(), Progress::new(true))?;
        // With its pods: nothing more may be there behind an operation that is undone.
        world.before = leftovers(&world.node)?;
        Ok(world)
    }

    fn make_all(&mut self) -> Result<()> {
        let history = self.history;
        history.pods.iter().try_for_each(|(name, labels)| self.make(name, labels))
    }

    /// An agent died just now.
    fn died(&mut self) {
        self.deaths.push(Instant::now());
    }

    /// Seconds since the first step; negative before it.
    fn seconds(&self, at: Instant) -> f64 {
        let since = at.saturating_duration_since(self.begun).as_secs_f64();
        since - self.begun.saturating_duration_since(at).as_secs_f64()
    }

    /// Calls the plugin, and waits for it.
    fn plugin(&mut self, command: &str, pod: &Pod) -> Result<Vec<u8>> {
        let mut running = cni::Running::begin(&self.node, command, pod)?;
        while !running.has_ended()? {
            self.restart_the_dead()?;
            thread::sleep(Duration::from_millis(1));
        }
        running.finish()
    }

    /// What a kubelet does where it is told to.
    fn restart_the_dead(&mut self) -> Result<()> {
        if self.restarts && !self.node.has_agent() {
            self.died();
            self.bury();
            self.node.exec_agent()?;
            self.restarted += 1;
        }
        Ok(())
    }

    /// A path below the node's directory.
    pub(super) fn path(&self, name: &str) -> std::path::PathBuf {
        self.node.path(name)
    }

    /// Waits until all that was made is ready and in force; from now on nothing of it may move.
    fn settle(&mut self) -> Result<()> {
        self.wait_until_ready()?;
        self.wait_until_applied()
    }

    fn steps(&mut self, steps: &[Step], outcome: &mut Outcome) -> Result<()> {
        for step in steps {
            if let Step::Repeat { times, steps } = step {
                for _ in 0..*times {
                    self.steps(steps, outcome)?;
                }
                continue;
            }
            let what = explain::step(step);
            let (at, begun) = (self.begun.elapsed().as_secs_f64(), Instant::now());
            self.step(step).with_context(|| format!("at the step: {what}"))?;
            outcome.steps.push(Done { what, at, took: begun.elapsed().as_secs_f64() });
        }
        Ok(())
    }
}
