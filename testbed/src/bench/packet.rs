//! A packet through the real from-container program, as an agent with default flags loaded and
//! pinned it: pod to local pod, egress and ingress policy and connection tracking included, nobody
//! listening to its records. Beside it the same with a record of every packet at both points.

use std::{
    fs,
    net::IpAddr,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail, ensure};
use aya::programs::SchedClassifier;
use serde_json::json;
use volvox_bpf_progs::{
    measure::{packet_cost, udp_frame},
    object::{FROM_CONTAINER, build_name},
};

use super::{Figure, Options, Unit};
use crate::{
    fleet::PORT,
    lab::{Node, Pod},
    progress::Progress,
};

/// How often the two figures take turns, so that what else the machine does hits both alike.
const TURNS: usize = 20;

/// Batches of a turn; the mean cost of each is one value.
const BATCHES: usize = 100;

/// The option of endpoints that tells how much is recorded, and its value for every packet.
const AGGREGATION: &str = "MonitorAggregationLevel";
const EVERY_PACKET: &str = "None";

/// Source port of the flow.
const SOURCE: u16 = 40_000;

/// Sends the same datagram from pod 0 to pod 1, whose policies allow it.
pub(super) fn run(options: &Options) -> Result<Vec<Figure>> {
    let progress = Progress::new(options.json);
    let fleet = options.launch(&progress)?;
    let [from, to] = [&fleet.pods[0], &fleet.pods[1]];
    let (IpAddr::V4(source), IpAddr::V4(target)) = (from.address(false)?, to.address(false)?)
    else {
        bail!("the pods have no IPv4 addresses");
    };
    let [inside, host] = from.links()?;
    let frame =
        udp_frame((inside.mac.0, host.mac.0), (source.octets(), target.octets()), (SOURCE, PORT));
    let pin = pinned(fleet.node.bpf_root())?;
    let program = SchedClassifier::from_pin(&pin)
        .with_context(|| format!("cannot open {}", pin.display()))?;
    let mut established = Figure::new("packet.established", Unit::Nanoseconds).below(450.0);
    let mut all_records = Figure::new("packet.established_all_records", Unit::Nanoseconds);
    let usual = aggregation(&fleet.node, from)?;
    ensure!(usual != EVERY_PACKET, "the agent records every packet by default");
    // The first batch makes the connection.
    packet_cost(&program, host.ifindex, &frame, 1)?;
    for _ in 0..TURNS {
        for (figure, level) in
            [(&mut established, usual.as_str()), (&mut all_records, EVERY_PACKET)]
        {
            for pod in [from, to] {
                aggregate(&fleet.node, pod, level)?;
            }
            for cost in packet_cost(&program, host.ifindex, &frame, BATCHES)? {
                figure.push(cost as f64);
            }
        }
    }
    Ok(vec![established, all_records])
}

/// The API's path to an endpoint's options.
fn options(pod: &Pod) -> Result<String> {
    Ok(format!("/endpoint/ipv4:{}/config", pod.address(false)?))
}

/// How much is recorded of a pod's packets.
fn aggregation(node: &Node, pod: &Pod) -> Result<String> {
    let config: serde_json::Value = node.rest().get(&options(pod)?)?;
    let level = config["realized"]["options"][AGGREGATION].as_str();
    Ok(level.with_context(|| format!("no {AGGREGATION} in {config}"))?.to_owned())
}

/// Changes that, and returns when it is in force.
fn aggregate(node: &Node, pod: &Pod, level: &str) -> Result<()> {
    let path = options(pod)?;
    let body = json!({ "options": { AGGREGATION: level } });
    let answer = node.rest().request("PATCH", &path, Some(&body))?;
    let text = String::from_utf8_lossy(&answer.body);
    ensure!(answer.status == 200, "PATCH {path}: {}: {text}", answer.status);
    Ok(())
}

/// The from-container program of this build, whatever features it was loaded with.
fn pinned(bpf_root: &Path) -> Result<PathBuf> {
    let folder = bpf_root.join("volvox/progs");
    for generation in fs::read_dir(&folder)? {
        let generation = generation?;
        if generation.file_name().to_string_lossy().starts_with(&build_name()) {
            return Ok(generation.path().join(FROM_CONTAINER));
        }
    }
    bail!("{} holds no programs of this build", folder.display())
}
