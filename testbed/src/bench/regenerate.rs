//! A policy change that touches every endpoint, until packets see it at each.

use std::time::Instant;

use anyhow::Result;
use serde_json::json;

use super::{Figure, Options, Unit};
use crate::{
    fleet::NAMESPACE,
    lab::{Node, Pod, Through},
    progress::Progress,
    traffic::Sweep,
};

/// The manifest that comes and goes.
const MANIFEST: &str = "everyone.yaml";

/// Lets a pod that nobody knew ping everyone, again and again, and takes it back.
pub(super) fn run(options: &Options) -> Result<Vec<Figure>> {
    let progress = Progress::new(options.json);
    let mut realised = Figure::new("regenerate.policy", Unit::Seconds).below(0.15);
    let mut first = Figure::new("regenerate.first", Unit::Seconds);
    let fleet = options.launch(&progress)?;
    let prober = Pod::create(&fleet.node, "probe/prober", &[("app", "prober")], Through::Rest)?;
    let targets = fleet.pods.iter().map(|pod| pod.address(false)).collect::<Result<Vec<_>>>()?;
    let bar = progress.bar("changing the policy", options.rounds.into());
    for _ in 0..options.rounds {
        let mut sweep = Sweep::start(&prober.netns, targets.clone())?;
        sweep.wait_for_silence()?;
        let begun = Instant::now();
        put(&fleet.node)?;
        let answered = sweep.wait_for_all()?;
        first.push_time(answered.first.saturating_duration_since(begun));
        realised.push_time(answered.last.saturating_duration_since(begun));
        take_back(&fleet.node)?;
        bar.inc(1);
    }
    bar.finish();
    Ok(vec![realised, first])
}

/// Lets the prober ping everyone.
pub(super) fn put(node: &Node) -> Result<()> {
    node.write_manifest(MANIFEST, &everyone())
}

/// And no longer.
pub(super) fn take_back(node: &Node) -> Result<()> {
    node.remove_manifest(MANIFEST)
}

/// Lets the prober ping every pod of the fleet.
fn everyone() -> String {
    json!({
        "apiVersion": "cilium.io/v2",
        "kind": "CiliumNetworkPolicy",
        "metadata": { "namespace": NAMESPACE, "name": "everyone" },
        "spec": {
            "endpointSelector": {},
            "ingress": [{
                "fromEndpoints": [{ "matchLabels": {
                    "k8s:io.kubernetes.pod.namespace": "probe",
                    "app": "prober",
                } }],
                "icmps": [{ "fields": [{ "family": "IPv4", "type": 8 }] }],
            }],
        },
    })
    .to_string()
}
