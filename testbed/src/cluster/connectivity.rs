//! What `volvox connectivity test` says of a cluster that is well, and of one that is not.

use std::{env, fs, net::TcpListener, process};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use super::scene::Scene;

/// A namespace of its own, so that the one of scenarios stays.
const NAMESPACE: &str = "tried";
/// Tests that a cluster of the lab cannot try: it has no DNS, and no pool of addresses.
const NOT_TRIED: [&str; 3] = ["dns", "service-headless", "service-load-balancer"];
/// Somebody outside of the cluster.
const OUTSIDE: &str = "192.0.2.200:8443";

/// All tests pass while agents are replaced, what they made is removed, and a policy that should not be
/// there makes them fail.
pub(super) fn run(scene: &mut Scene) -> Result<()> {
    let file = env::temp_dir().join(format!("connectivity-{}.xml", process::id()));
    let path = file.display().to_string();
    let words = ["connectivity", "test", "--namespace", NAMESPACE, "--junit", &path, "-o", "json"];
    // The kernel takes connections for who listens.
    let outside = scene.cluster.outside.run(|| Ok(TcpListener::bind(OUTSIDE)?))?;
    let more = ["--restart-agents", "--external-target", OUTSIDE];
    let said = scene.cluster.volvox(&[&words[..], &more].concat());
    drop(outside);
    let junit = fs::read_to_string(&file);
    let _ = fs::remove_file(&file);
    let report: Value = serde_json::from_str(&said?)?;
    let tests = report["tests"].as_array().context("no tests")?;
    let of = |outcome: &str| {
        let mut names: Vec<_> = tests
            .iter()
            .filter(|it| it["outcome"] == outcome)
            .filter_map(|it| it["name"].as_str())
            .collect();
        names.sort_unstable();
        names
    };
    ensure!(of("failed").is_empty(), "{report:#}");
    ensure!(of("not-tried") == NOT_TRIED, "not tried: {:?}", of("not-tried"));
    let restart = tests.iter().find(|it| it["name"] == "agent-restart").context("no restart")?;
    let probes = restart["probes"].as_u64().unwrap_or_default();
    ensure!(probes > 2000, "few probes: {restart:#}");
    let junit = junit?;
    let head = format!(
        "tests=\"{}\" failures=\"0\" errors=\"0\" skipped=\"{}\"",
        tests.len(),
        NOT_TRIED.len()
    );
    ensure!(junit.contains(&head), "{junit}");
    ensure!(scene.cluster.kubectl(&format!("get namespace {NAMESPACE}")).is_err(), "it is left");

    a_policy_that_should_not_be_there(scene)?;
    scene.agents_are_ready()
}

/// It makes the test of pods fail, with the reason and the policy's name; and everything is removed.
fn a_policy_that_should_not_be_there(scene: &mut Scene) -> Result<()> {
    let policy = json!({
        "apiVersion": "cilium.io/v2", "kind": "CiliumClusterwideNetworkPolicy",
        "metadata": { "name": "closed" },
        "spec": {
            "endpointSelector": {
                "matchLabels": { "k8s:io.kubernetes.pod.namespace": NAMESPACE, "volvox.io/role": "server" },
            },
            "ingress": [{ "fromEntities": ["host", "remote-node"] }],
        },
    });
    scene.cluster.apply(&[policy])?;
    let words = ["connectivity", "test", "--namespace", NAMESPACE, "--test", "pod-to-pod"];
    let failed = scene.cluster.volvox(&words);
    scene.cluster.kubectl("delete ciliumclusterwidenetworkpolicy closed")?;
    let Err(failed) = failed else { bail!("servers are closed, and all tests pass") };
    let said = format!("{failed:#}");
    for expected in [
        "2 of 2 tests failed",
        "client-a to server-b",
        "timed out",
        "volvox why pod-name:tried/server-b --dropped --from",
        "CiliumClusterwideNetworkPolicy closed is not of the test",
        "namespace tried is removed",
    ] {
        ensure!(said.contains(expected), "{expected}: {said}");
    }
    Ok(())
}
