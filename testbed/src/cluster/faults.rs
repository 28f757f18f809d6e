//! Parts of the cluster are killed, and machines switched off.

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::scene::{Placed, Scene};
use crate::{
    lab::{Part, wait_for},
    traffic::stop_clean,
};

/// Every part of the control plane and of the nodes is killed under traffic: nothing is lost, and
/// afterwards pods are made as before.
pub(super) fn kills(scene: &mut Scene) -> Result<()> {
    let pods = scene.serve("web", 4)?;
    let streams = scene.streams(&pods)?;
    for part in Part::ALL {
        scene.cluster.kill(part).with_context(|| format!("{part:?}"))?;
        for stream in &streams {
            stream.wait_for_answers(50)?;
        }
        scene.cluster.start_again(part).with_context(|| format!("{part:?}"))?;
    }
    for program in ["volvox-agent", "volvox-operator", "kubelet", "containerd"] {
        for machine in &mut scene.cluster.machines {
            // Of the operators there may be none on a machine.
            let killed = machine.kill(program);
            ensure!(killed.is_ok() || program == "volvox-operator", "{program}: {killed:?}");
            for stream in &streams {
                stream.wait_for_answers(20)?;
            }
            match program {
                "kubelet" => machine.start_kubelet()?,
                "containerd" => machine.start_runtime()?,
                _ => {}
            }
        }
    }
    scene.agents_are_ready()?;
    // Nobody who died took anything along.
    let more = scene.serve("more", 4)?;
    scene.reaches(&more[0], &pods[0])?;
    stop_clean(streams)
}

/// A node is drained and taken again; then it loses its power and comes back. Pods move, others are
/// not disturbed, and the node is as before.
pub(super) fn node_gone(scene: &mut Scene) -> Result<()> {
    let last = scene.cluster.machines.last().context("no machine")?.name.clone();
    let pods = scene.serve("web", 4)?;
    let stays: Vec<Placed> = pods.iter().filter(|pod| pod.machine != last).cloned().collect();
    let streams = scene.streams(&stays)?;
    scene.cluster.kubectl(&format!("drain {last} --ignore-daemonsets --delete-emptydir-data"))?;
    scene.rolled("web")?;
    let on_it = |scene: &Scene| -> Result<usize> {
        Ok(scene.pods("web")?.iter().filter(|pod| pod.machine == last).count())
    };
    ensure!(on_it(scene)? == 0, "pods are left on a node that is drained");
    scene.cluster.kubectl(&format!("uncordon {last}"))?;
    scene.serve("more", 2)?;

    scene.cluster.machine(&last)?.switch_off()?;
    wait_for("the node is not ready", || Ok(!is_ready(scene, &last)?))?;
    for stream in &streams {
        stream.wait_for_answers(50)?;
    }
    scene.cluster.switch_on(&last)?;
    wait_for("the node is ready", || is_ready(scene, &last))?;
    scene.agents_are_ready()?;
    for app in ["web", "more"] {
        scene.rolled(app)?;
    }
    stop_clean(streams)?;
    let all = scene.serve("again", 4)?;
    ensure!(all.iter().any(|pod| pod.machine == last), "{last} gets no pods: {all:?}");
    for to in &all {
        scene.reaches(&all[0], to)?;
    }
    Ok(())
}

fn is_ready(scene: &Scene, name: &str) -> Result<bool> {
    let node: Value = scene.cluster.server.client().get(&format!("/api/v1/nodes/{name}"))?;
    let conditions = node["status"]["conditions"].as_array().cloned().unwrap_or_default();
    Ok(conditions.iter().any(|it| it["type"] == "Ready" && it["status"] == "True"))
}
