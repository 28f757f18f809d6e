//! Many pods at a time.

use anyhow::{Result, ensure};

use super::scene::Scene;
use crate::lab::wait_for;

/// So many.
const PODS: usize = 60;

/// Sixty pods are made at once, each answers, and they go at once.
pub(super) fn run(scene: &mut Scene) -> Result<()> {
    let asker = scene.serve("asker", 1)?;
    let pods = scene.serve("web", PODS)?;
    ensure!(pods.len() == PODS, "{} pods", pods.len());
    let mut addresses: Vec<_> = pods.iter().map(|pod| pod.address).collect();
    addresses.sort_unstable();
    addresses.dedup();
    ensure!(addresses.len() == PODS, "{} addresses for {PODS} pods", addresses.len());
    for pod in &pods {
        scene.reaches(&asker[0], pod)?;
    }
    scene.kubectl(&["scale", "deployment", "web", "--replicas=0"])?;
    wait_for("all pods are gone", || Ok(scene.pods("web")?.is_empty()))
}
