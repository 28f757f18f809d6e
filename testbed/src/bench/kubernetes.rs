//! A cluster of Kubernetes itself: how long installing takes, what rolling all agents costs, and what
//! agents ask of the API server when nothing happens.

use std::{
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};

use super::{Figure, Options, Unit};
use crate::{
    cluster::{Losses, Scene},
    lab::{Kubernetes, wait_for},
};

/// How long nothing happens, for each round.
const QUIET: Duration = Duration::from_secs(15);
/// Before it, what installing and rolling left is done.
const SETTLED_AFTER: Duration = Duration::from_secs(20);
const HOUR: Duration = Duration::from_secs(3600);

pub(super) fn run(options: &Options) -> Result<Vec<Figure>> {
    let Some(cluster) = Kubernetes::start(2)? else { return Ok(Vec::new()) };
    let mut ready = Figure::new("install.ready", Unit::Seconds).below(30.0);
    let mut lost = Figure::new("rollout.lost", Unit::Count).zero();
    let mut rolled = Figure::new("rollout.time", Unit::Seconds);
    let mut asked = Figure::new("requests.hour", Unit::Count).zero();

    // The pods wait for the network, as those of a new cluster do.
    let scene = Scene::bare(cluster)?;
    scene.wish_on_each("first")?;
    let begun = Instant::now();
    let mut scene = scene.installed()?;
    wait_for("a pod answers another node's", || scene.answers_across("first"))?;
    ready.push_time(begun.elapsed());

    for _ in 0..options.rounds {
        let Losses { packets, requests, took } = scene.roll_under_traffic()?;
        lost.push_count(packets + requests);
        rolled.push_time(took);
    }
    thread::sleep(SETTLED_AFTER);
    let before = scene.cluster.server.asked_by_agents()?.len();
    let quiet = QUIET * options.rounds.into();
    thread::sleep(quiet);
    let all = scene.cluster.server.asked_by_agents()?;
    let more = all.get(before..).context("the log of requests went")?;
    let counted = more.iter().filter(|it| it.verb != "watch" && !it.uri.contains("/leases"));
    let counted: Vec<_> = counted.collect();
    for request in &counted {
        volvox_system::complain!("not a watch: {} {}", request.verb, request.uri);
    }
    let nodes = scene.cluster.machines.len() as f64;
    asked.push(counted.len() as f64 * (HOUR.as_secs_f64() / quiet.as_secs_f64()) / nodes);
    Ok(vec![ready, lost, rolled, asked])
}
