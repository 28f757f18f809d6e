//! The world of real processes: a node of the lab with its pods, and a history that happens to it.

mod applied;
mod deaths;
mod ending;
mod faults;
mod flows;
mod services;
mod steps;

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};

use super::{
    explain,
    history::{History, Labels, ManifestName, Name, Step},
    outcome::{Done, Outcome, Place},
};
use crate::{
    judge::{Finding, Judge, Leftovers, Measure, leftovers},
    lab::{Binaries, Etcd, Injection, Node, Pod},
    random::Random,
    traffic::Responder,
};

/// A node and all that is around it.
struct World<'a> {
    history: &'a History,
    node: Node,
    usual: Binaries,
    etcd: Option<Etcd>,
    pods: BTreeMap<Name, Member>,
    /// Pods that were not made because the agent died meanwhile.
    pending: BTreeMap<Name, Labels>,
    manifests: BTreeMap<ManifestName, serde_json::Value>,
    judge: Judge,
    flows: flows::Flows,
    /// What will kill the agent that runs.
    doom: Option<Injection>,
    random: Random,
    lives: Vec<Life>,
    /// There before the first pod.
    before: Leftovers,
    begun: Instant,
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

/// Lives through a history, within the lab.
pub(super) fn live(history: &History, seed: u64) -> Outcome {
    let begun = Instant::now();
    let mut outcome = Outcome::new(&history.name, Place::Lab, seed);
    if let Err(error) = happen(history, seed, &mut outcome) {
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

fn happen(history: &History, seed: u64, outcome: &mut Outcome) -> Result<()> {
    let mut world = World::begin(history, seed)?;
    world.settle()?;
    world.begin_traffic(&history.traffic)?;
    world.begun = Instant::now();
    world.steps(&history.steps, outcome)?;
    world.end(outcome)
}

impl<'a> World<'a> {
    /// A node whose agent runs, without pods.
    fn begin(history: &'a History, seed: u64) -> Result<Self> {
        let usual = Binaries::find()?;
        let mut node = Node::new(usual.clone())?;
        faults::prepare(history, &node)?;
        let etcd = history.has_etcd.then(|| Etcd::start(&node.path("etcd"))).transpose()?;
        if let Some(etcd) = &etcd {
            etcd.share_with(&mut node)?;
        }
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
            etcd,
            pods: BTreeMap::new(),
            pending: BTreeMap::new(),
            manifests: BTreeMap::new(),
            judge,
            flows: flows::Flows::default(),
            doom: None,
            random: Random::new(seed),
            lives: Vec::new(),
            before,
            begun: Instant::now(),
        };
        world.apply(&history.manifests)?;
        for (name, labels) in &history.pods {
            world.make(name, labels)?;
        }
        Ok(world)
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
