//! All agents of the cluster are replaced at once while everything is used.

use std::net::SocketAddr;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::scene::{Scene, service};
use crate::traffic::{Requests, stop_clean};

/// Where each node serves the pods.
const NODE_PORT: u16 = 30081;
/// How often.
const TIMES: usize = 3;

/// No packet and no connection is lost between pods, from outside to a node's port with half of the
/// backends on other nodes, or from a pod to a service.
pub(super) fn run(scene: &mut Scene) -> Result<()> {
    let pods = scene.serve("web", 4)?;
    scene.cluster.apply(&[service("web", NODE_PORT)])?;
    let service: Value =
        serde_json::from_str(&scene.kubectl(&["get", "service", "web", "-o", "json"])?)?;
    let frontend = service["spec"]["clusterIP"].as_str().context("no address")?.parse()?;
    let streams = scene.streams(&pods)?;
    let mut requests = Vec::new();
    for machine in &scene.cluster.machines {
        let at = SocketAddr::new(machine.address.into(), NODE_PORT);
        requests.push(Requests::start(&scene.cluster.outside, at, 40)?);
    }
    let asker = scene.serve("asker", 1)?;
    let inside = scene.netns(&asker[0])?;
    requests.push(Requests::start(&inside, SocketAddr::new(frontend, 80), 100)?);
    for asked in &requests {
        asked.wait_for_answers(20)?;
    }
    let before = agents(scene)?;
    for _ in 0..TIMES {
        scene.roll_agents()?;
    }
    let after = agents(scene)?;
    ensure!(
        after.iter().all(|pod| !before.contains(pod)),
        "{before:?} were not replaced: {after:?}"
    );
    for asked in &requests {
        asked.wait_for_answers(50)?;
    }
    stop_clean(streams)?;
    for asked in requests {
        let tally = asked.stop()?;
        tally.is_clean()?;
        ensure!(
            tally.answers.len() == pods.len(),
            "not all backends are used: {:?}",
            tally.answers
        );
    }
    Ok(())
}

fn agents(scene: &Scene) -> Result<Vec<String>> {
    let words = "-n kube-system get pods -l k8s-app=volvox -o name";
    Ok(scene.cluster.kubectl(words)?.lines().map(String::from).collect())
}
