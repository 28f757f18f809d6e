//! A cluster of Kubernetes itself, with bare machines: Volvox is installed by its command, and what
//! `cargo testbed cluster` lists happens to it.

mod transcript;

use anyhow::{Context, Result};
use volvox_testbed::{
    cluster::{SCENARIOS, Scene},
    lab::{self, Kubernetes},
};

/// Lets the scenarios of those names happen in one cluster.
fn happen(names: &[&str]) -> Result<()> {
    let Some(cluster) = Kubernetes::start(2)? else { return Ok(()) };
    let mut scene = Scene::install(cluster)?;
    for name in names {
        let scenario = SCENARIOS.iter().find(|it| it.name == *name);
        scene.try_out(scenario.with_context(|| format!("no scenario {name}"))?)?;
    }
    Ok(())
}

#[test]
fn a_cluster_has_its_days() {
    lab::test("a_cluster_has_its_days", || happen(&["everyday", "roll", "many"]));
}

#[test]
fn a_cluster_is_tested_by_its_command() {
    lab::test("a_cluster_is_tested_by_its_command", || happen(&["connectivity"]));
}

#[test]
fn a_cluster_survives_its_parts() {
    lab::test("a_cluster_survives_its_parts", || happen(&["kills", "node-gone"]));
}

#[test]
fn every_scenario_is_tried() {
    let tried = ["everyday", "connectivity", "roll", "many", "kills", "node-gone"];
    let all = SCENARIOS.map(|it| it.name);
    let missing: Vec<_> = all.iter().filter(|name| !tried.contains(name)).collect();
    assert!(missing.is_empty(), "{missing:?} are tried by no test");
}
