//! Tests: calls to the kernel fail, and an endpoint is ready only when its policy map is right.

use std::{collections::BTreeMap, fs, process::Command};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use volvox_testbed::lab::{self, Injection, Node};

use super::{PODS, fleet};

/// Rows of every endpoint's policy map as the kernel has them, without what is counted there.
fn rows(node: &Node) -> Result<BTreeMap<String, Value>> {
    let output = Command::new(&node.binaries().client)
        .arg("--socket-path")
        .arg(node.path("cilium.sock"))
        .arg("--bpf-root")
        .arg(node.bpf_root())
        .args(["-o", "json", "bpf", "policy", "list"])
        .output()?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "the policy maps cannot be read: {complaint}");
    let mut rows = BTreeMap::new();
    flatten("", &serde_json::from_slice(&output.stdout)?, &mut rows);
    rows.retain(|path, _| !["bytes", "packets"].iter().any(|counted| path.ends_with(counted)));
    Ok(rows)
}

/// Every leaf of a value by its path.
fn flatten(path: &str, value: &Value, leaves: &mut BTreeMap<String, Value>) {
    match value {
        Value::Object(members) => {
            members
                .iter()
                .for_each(|(key, value)| flatten(&format!("{path}.{key}"), value, leaves));
        }
        Value::Array(items) => {
            let items = items.iter().enumerate();
            items.for_each(|(at, value)| flatten(&format!("{path}[{at}]"), value, leaves));
        }
        leaf => drop(leaves.insert(path.to_owned(), leaf.clone())),
    }
}

/// A further policy for every pod of the fleet: more peers, of which some are prefixes.
fn policy(edition: usize) -> String {
    let cidrs: Vec<String> = (0..20).map(|part| format!("203.0.{}.0/24", part + edition)).collect();
    json!({
        "apiVersion": "cilium.io/v2",
        "kind": "CiliumNetworkPolicy",
        "metadata": { "namespace": "fleet", "name": "more" },
        "spec": {
            "endpointSelector": {},
            "ingress": [{ "fromCIDR": cidrs, "toPorts": [{ "ports": [{ "port": "80" }] }] }],
        },
    })
    .to_string()
}

/// A load that failed was followed by one that only seemed to succeed: an endpoint was ready with
/// an empty policy map, and dropped everything.
#[test]
fn c_38998_ready_means_that_the_map_is_the_model() {
    lab::test("faults::c_38998_ready_means_that_the_map_is_the_model", || {
        let mut fleet = fleet()?;
        let node = &mut fleet.node;
        let truth = [0, 1].map(|edition| -> Result<_> {
            let empty = rows(node)?;
            node.write_manifest("more.yaml", &policy(edition))?;
            node.wait("the policy is not enforced", |node| {
                let now = rows(node)?;
                Ok(now.len() > empty.len() || (edition > 0 && now != empty))
            })?;
            settled(node)
        });
        let [first, second] = truth;
        let truth = [first?, second?];
        ensure!(truth[0] != truth[1], "the policies do not differ");
        let pid = node.agent()?.pid();
        let faults = [("ENOMEM", 1), ("E2BIG", 2), ("ENOMEM", 5), ("E2BIG", 11)];
        for (round, (error, when)) in faults.into_iter().enumerate() {
            let edition = round % 2;
            let effect = format!("error={error}:when={when}..{}", when + 1);
            let injection = Injection::attach(pid, "bpf", &effect)?;
            let before = failures(node)?;
            node.write_manifest("more.yaml", &policy(edition))?;
            let what = || format!("{error} at call {when}");
            let is_model = |node: &Node| Ok(rows(node).is_ok_and(|now| now == truth[edition]));
            // Threads are started anew, and each has its share of errors.
            node.wait("nothing fails", |node| Ok(failures(node)? > before || is_model(node)?))
                .with_context(what)?;
            drop(injection);
            node.wait("the map is not the model", |node| is_model(node)).with_context(what)?;
            node.wait_for_ready(PODS).with_context(what)?;
            ensure!(rows(node)? == truth[edition], "{}: it did not stay so", what());
        }
        Ok(())
    });
}

/// How often the agent said that an endpoint was not built.
fn failures(node: &Node) -> Result<usize> {
    Ok(fs::read_to_string(node.log())?.matches("was not built").count())
}

/// What the maps hold once two looks in a row, with all endpoints ready between them, are the same.
fn settled(node: &mut Node) -> Result<BTreeMap<String, Value>> {
    let mut last = rows(node)?;
    node.wait("the policy maps do not settle", |node| {
        node.wait_for_ready(PODS)?;
        let now = rows(node)?;
        let same = now == last;
        last = now;
        Ok(same)
    })?;
    Ok(last)
}
