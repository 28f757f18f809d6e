//! All agents of the cluster are replaced at once while everything is used.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};

use super::scene::{Scene, service};
use crate::traffic::{Requests, stop_all};

/// Where each node serves the pods.
const NODE_PORT: u16 = 30081;
/// How often.
const TIMES: usize = 3;

/// What was lost while agents were replaced.
#[derive(Clone, Copy, Debug, Default)]
pub struct Losses {
    /// Packets and connections between pods.
    pub packets: u64,
    /// Requests to services, from outside by each node's port and from a pod.
    pub requests: u64,
    /// How long the agents took to be replaced and ready.
    pub took: Duration,
}

/// No packet and no connection is lost between pods, from outside to a node's port with half of the
/// backends on other nodes, or from a pod to a service.
pub(super) fn run(scene: &mut Scene) -> Result<()> {
    let before = agents(scene)?;
    for _ in 0..TIMES {
        let losses = scene.roll_under_traffic()?;
        ensure!(losses.packets + losses.requests == 0, "{losses:?}");
    }
    let after = agents(scene)?;
    ensure!(
        after.iter().all(|pod| !before.contains(pod)),
        "{before:?} were not replaced: {after:?}"
    );
    Ok(())
}

impl Scene {
    /// Replaces all agents at once while everything is used; what was lost.
    pub fn roll_under_traffic(&mut self) -> Result<Losses> {
        let pods = self.serve("web", 4)?;
        self.cluster.apply(&[service("web", NODE_PORT)])?;
        let frontend = self.frontend("web")?;
        let streams = self.streams(&pods)?;
        let mut requests = Vec::new();
        for machine in &self.cluster.machines {
            let at = SocketAddr::new(machine.address.into(), NODE_PORT);
            requests.push(Requests::start(&self.cluster.outside, at, 20)?);
        }
        let asker = self.serve("asker", 1)?;
        let inside = self.netns(&asker[0])?;
        requests.push(Requests::start(&inside, SocketAddr::new(frontend.into(), 80), 50)?);
        for asked in &requests {
            asked.wait_for_answers(20)?;
        }
        let begun = Instant::now();
        self.roll_agents()?;
        let took = begun.elapsed();
        for asked in &requests {
            asked.wait_for_answers(50)?;
        }
        let mut losses = Losses { took, ..Losses::default() };
        for report in stop_all(streams)? {
            if !report.is_clean() {
                volvox_system::complain!("{report:?}");
            }
            losses.packets += report.lost + report.failures;
        }
        for asked in requests {
            let tally = asked.stop()?;
            if let Err(error) = tally.is_clean() {
                volvox_system::complain!("{error}");
            }
            losses.requests += tally.failures.len() as u64 + tally.lost;
            ensure!(tally.answers.len() == pods.len(), "not all answer: {:?}", tally.answers);
        }
        Ok(losses)
    }
}

fn agents(scene: &Scene) -> Result<Vec<String>> {
    let words = "-n kube-system get pods -l k8s-app=volvox -o name";
    Ok(scene.cluster.kubectl(words)?.lines().map(String::from).collect())
}
