//! What endpoints leave behind outside of the agent: addresses, records, pins, interfaces.

use std::{fs, path::Path};

use anyhow::{Context, Result};
use serde_json::Value;
use volvox_system::netlink::Socket;

use crate::lab::Node;

/// How many things there are of each kind.
pub type Leftovers = Vec<(&'static str, usize)>;

/// What there is more of than before.
pub fn more(left: &Leftovers, before: &Leftovers) -> Leftovers {
    let pairs = left.iter().zip(before).filter(|((_, now), (_, then))| now > then);
    pairs.map(|((what, now), (_, then))| (*what, now - then)).collect()
}

/// Counts what there is for endpoints on a node whose agent answers.
pub fn leftovers(node: &Node) -> Result<Leftovers> {
    let health: Value = node.rest().get("/healthz")?;
    let addresses = health["ipam"]["allocations"].as_object().context("no allocations")?.len();
    let count = |folder: &Path, prefix: &str| -> Result<usize> {
        let Ok(folder) = fs::read_dir(folder) else { return Ok(0) };
        let names = folder.flatten();
        let names = names.map(|name| name.file_name().to_string_lossy().into_owned());
        // The node's own file is one or two, by turns.
        Ok(names.filter(|name| name.starts_with(prefix) && !name.starts_with("node.")).count())
    };
    let bpf = node.bpf_root();
    let links = Socket::open()?.links()?;
    Ok(vec![
        ("addresses", addresses),
        ("policy pins", count(&bpf.join("tc/globals"), "cilium_policy_v2_")?),
        ("links", count(&bpf.join("cilium/endpoints"), "")?),
        ("records", count(&node.path("cilium/state"), "")?),
        ("interfaces", links.values().filter(|link| link.name.starts_with("lxc")).count()),
    ])
}
