//! The flight recorder of a real agent: after a kill, on a full disk, and asked why.

use std::{
    fs,
    path::Path,
    process::{Command, Output, Stdio},
};

use anyhow::{Context, Result, ensure};
use rustix::mount::{MountFlags, mount};
use serde_json::{Value, json};
use volvox_testbed::{
    fleet::{Fleet, NAMESPACE, PORT},
    lab::{self, Binaries, Injection, Metrics, Node, Through, wait_for},
    progress::Progress,
};

/// Pods on the node.
const PODS: usize = 10;

fn fleet() -> Result<Fleet> {
    Fleet::launch(PODS, Through::Rest, &Progress::new(true))
}

/// The client, to be run on this node.
fn client(node: &Node, words: &str) -> Command {
    let mut command = Command::new(&node.binaries().client);
    command.env("VOLVOX_SOCKET", node.path("cilium.sock"));
    command.env("VOLVOX_STATE_DIR", node.path("cilium"));
    command.args(words.split_whitespace());
    command
}

fn output(node: &Node, words: &str) -> Result<String> {
    let Output { status, stdout, stderr } = client(node, words).output()?;
    let said = String::from_utf8_lossy(&stderr);
    ensure!(status.success(), "volvox {words}: {status}: {said}");
    Ok(String::from_utf8(stdout)?)
}

fn trace(node: &Node, words: &str) -> Result<Value> {
    Ok(serde_json::from_str(&output(node, &format!("trace export --json {words}"))?)?)
}

fn last_message(trace: &Value) -> Option<&Value> {
    trace["events"].as_array()?.iter().rev().find(|event| event["record"] == "message")
}

/// Has every endpoint of the fleet let in another port.
fn touch_everyone(node: &Node, port: u16) -> Result<()> {
    let policy = json!({
        "apiVersion": "cilium.io/v2",
        "kind": "CiliumNetworkPolicy",
        "metadata": { "namespace": NAMESPACE, "name": "everyone" },
        "spec": {
            "endpointSelector": {},
            "ingress": [{
                "fromEndpoints": [{}],
                "toPorts": [{ "ports": [{ "port": port.to_string(), "protocol": "TCP" }] }],
            }],
        },
    });
    node.write_manifest("everyone.yaml", &policy.to_string())
}

#[test]
fn the_last_moments_before_a_kill_are_there_for_the_next_life() {
    lab::test("the_last_moments_before_a_kill_are_there_for_the_next_life", || {
        let mut fleet = fleet()?;
        let node = &mut fleet.node;
        // In the middle of work: everyone is being built again.
        touch_everyone(node, 7001)?;
        let seen = trace(node, "")?;
        ensure!(seen["life"]["previous"] == false, "{}", seen["life"]);
        let last = last_message(&seen).context("nothing is recorded")?.clone();
        node.kill_agent()?;
        let dead = trace(node, "")?;
        ensure!(dead["life"]["previous"] == true && dead["life"]["torn"].as_u64() <= Some(1));
        ensure!(dead["events"].as_array().is_some_and(|events| events.contains(&last)));
        node.start_agent()?;
        node.wait_for_ready(PODS)?;
        let previous = trace(node, "--life previous")?;
        ensure!(previous["events"] == dead["events"], "the kept record is another one");
        let current = trace(node, "")?;
        let number = |trace: &Value| trace["life"]["number"].as_u64();
        ensure!(number(&current) == number(&previous).map(|number| number + 1));
        for kind in ["phase", "root", "spawned", "message", "state", "waited", "kernel"] {
            let any = |event: &Value| event["record"] == kind;
            let events = current["events"].as_array().context("no events")?;
            ensure!(events.iter().any(any), "nothing of kind {kind} is recorded");
        }
        let reported = output(node, "trace --life previous --last 3")?;
        ensure!(reported.contains("is over") && reported.lines().count() == 6, "{reported}");
        let file = node.path("trace.json").display().to_string();
        output(node, &format!("trace export --perfetto --life previous -f {file}"))?;
        let exported: Value = serde_json::from_str(&fs::read_to_string(&file)?)?;
        ensure!(exported["traceEvents"].as_array().is_some_and(|all| all.len() > 100));
        Ok(())
    });
}

#[test]
fn a_disk_without_room_for_the_record_costs_the_record_only() {
    lab::test("a_disk_without_room_for_the_record_costs_the_record_only", || {
        let mut node = Node::new(Binaries::find()?)?;
        let disk = node.path("cilium");
        mount("tmpfs", &disk, "tmpfs", MountFlags::empty(), Some(c"size=4m"))?;
        node.start_agent()?;
        ensure!(metric(&node)? == 0.0, "it has no room");
        let status = output(&node, "status")?;
        ensure!(status.contains("in memory only") && status.contains("make room"), "{status}");
        ensure!(!disk.join("flight.ring").exists(), "half a ring is left");
        node.stop_agent()?;
        // Room for a small ring, and then for nothing more.
        node.flags(&["--flight-recorder-size=262144"]).start_agent()?;
        ensure!(metric(&node)? == 1.0, "it has room");
        fill(&disk.join("filler"))?;
        // More than the ring holds: every page of it is written.
        let begun = records(&node)?;
        wait_for("the ring is written", || {
            (0..200).try_for_each(|_| node.rest().get::<Value>("/volvox/build-queue").map(drop))?;
            Ok(records(&node)? > begun + 10_000)
        })?;
        node.agent()?.check()?;
        ensure!(trace(&node, "")?["life"]["torn"].as_u64() <= Some(1));
        Ok(())
    });
}

/// Whether the recorder has a file.
fn metric(node: &Node) -> Result<f64> {
    let metrics = Metrics::scrape(node.rest())?;
    Ok(metrics.family("volvox_flight_in_file").map(|(_, value)| value).sum())
}

fn records(node: &Node) -> Result<u64> {
    let recorder: Value = node.rest().get("/volvox/flight")?;
    recorder["records"].as_u64().context("no number of records")
}

fn fill(path: &Path) -> Result<()> {
    let mut chunk = 1 << 20;
    let mut bytes = Vec::new();
    while chunk > 0 {
        bytes.resize(bytes.len() + chunk, 1);
        if fs::write(path, &bytes).is_err() {
            bytes.truncate(bytes.len() - chunk);
            chunk /= 2;
        }
    }
    Ok(())
}

#[test]
fn why_names_whom_an_endpoint_waits_for_and_who_has_the_permits() {
    lab::test("why_names_whom_an_endpoint_waits_for_and_who_has_the_permits", || {
        let mut fleet = fleet()?;
        let node = &mut fleet.node;
        // Every bpf(2) of the agent takes long to begin: builds hold their permits.
        let slow = Injection::attach(node.agent()?.pid(), "bpf", "delay_enter=5000000")?;
        let ids: Vec<_> =
            node.endpoints()?.iter().map(|endpoint| endpoint["id"].to_string()).collect();
        let regenerate =
            |id| client(node, &format!("endpoint regenerate {id}")).stdout(Stdio::null()).spawn();
        let asked: Vec<_> = ids.iter().map(regenerate).collect::<Result<_, _>>()?;
        let mut reported = String::new();
        wait_for("somebody waits for a permit that others hold", || {
            // A permit that is held for long keeps nobody waiting: who is last in the queue has been
            // there for some seconds at most, as others come in between.
            let queue: Value = node.rest().get("/volvox/build-queue")?;
            let Some(last) = queue["waiting"].as_array().and_then(|all| all.last()) else {
                return Ok(false);
            };
            let id = &last[0];
            reported = output(node, &format!("why {id}"))?;
            Ok(reported.contains(&format!("endpoint {id} ("))
                && reported.contains(") waits ")
                && reported.contains(" for build-queue: ")
                && reported.contains("build-queue has given its permits to endpoint ")
                && reported.contains(" for kernel: ")
                && reported.contains("; gives up in "))
        })
        .with_context(|| format!("the last answer: {reported}"))?;
        // Let go, all of them end as if nothing had been.
        drop(slow);
        for mut regeneration in asked {
            ensure!(regeneration.wait()?.success(), "a regeneration failed");
        }
        node.wait_for_ready(PODS).map(drop)
    });
}

#[test]
fn why_leads_from_a_build_to_the_file_and_from_a_drop_to_the_rule() {
    lab::test("why_leads_from_a_build_to_the_file_and_from_a_drop_to_the_rule", || {
        let mut fleet = fleet()?;
        let ids: Vec<_> =
            fleet.node.endpoints()?.iter().map(|endpoint| endpoint["id"].to_string()).collect();
        output(&fleet.node, &format!("endpoint regenerate {}", ids[0]))?;
        let reported = output(&fleet.node, &format!("why {} --regenerated", ids[0]))?;
        ensure!(reported.contains("It began outside, with: POST "), "{reported}");
        ensure!(reported.contains("Regenerate from endpoints"), "{reported}");
        // Pod 0 lets in its own app and the one before it, at one port.
        let id = endpoint_of(&fleet, 0)?;
        let asked = |fleet: &Fleet, from: usize, port: u16| -> Result<String> {
            let from = fleet.pods[from].address(false)?;
            output(&fleet.node, &format!("why {id} --dropped --from {from} --port {port}"))
        };
        let passes = asked(&fleet, PODS - 1, PORT)?;
        ensure!(passes.contains("passes: allowed by policy-0.yaml"), "{passes}");
        let dropped = asked(&fleet, 5, PORT)?;
        ensure!(
            dropped.contains("is dropped") && dropped.contains("no rule allows it"),
            "{dropped}"
        );
        ensure!(asked(&fleet, PODS - 1, PORT + 1)?.contains("no rule allows it"));
        // The same without the agent; the rule is then a number.
        fleet.node.kill_agent()?;
        ensure!(asked(&fleet, 5, PORT)?.contains("no rule allows it"));
        let state = output(&fleet.node, &format!("why {id}"))?;
        ensure!(state.contains("The agent does not answer") && state.contains("ready"), "{state}");
        Ok(())
    });
}

/// The number of a pod's endpoint.
fn endpoint_of(fleet: &Fleet, pod: usize) -> Result<String> {
    let address = fleet.pods[pod].address(false)?.to_string();
    let endpoints = fleet.node.endpoints()?;
    let found =
        endpoints.iter().find(|endpoint| endpoint.to_string().contains(&format!("\"{address}\"")));
    Ok(found.context("no endpoint has the pod's address")?["id"].to_string())
}
