//! Failures that users of node agents reported, provoked: those whose cause is in the kernel, on
//! the disk or between processes. Each test is called by the issue where the failure was reported:
//! `c` is cilium/cilium, other repositories go by their own name. Those whose cause is logical, and
//! the table of all, are the actors' (`node supervisor/tests/cases.rs`).

mod cni;
mod faults;
mod power_cut;
mod restart;
mod surroundings;

use anyhow::{Context, Result};
use serde_json::Value;
use volvox_testbed::{
    fleet::Fleet,
    lab::{Node, Through},
    progress::Progress,
};

/// Pods on the node.
const PODS: usize = 8;

fn fleet() -> Result<Fleet> {
    Fleet::launch(PODS, Through::Rest, &Progress::new(true))
}

/// Addresses that are given out, and to whom.
fn allocations(node: &Node) -> Result<serde_json::Map<String, Value>> {
    let health: Value = node.rest().get("/healthz")?;
    Ok(health["ipam"]["allocations"].as_object().context("no allocations")?.clone())
}
