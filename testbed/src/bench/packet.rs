//! A packet through the real from-container program, as an agent loaded and pinned it: pod to
//! local pod, egress and ingress policy and connection tracking included.

use std::{
    fs,
    net::IpAddr,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use aya::programs::SchedClassifier;
use volvox_bpf_progs::{
    measure::{packet_cost, udp_frame},
    object::{FROM_CONTAINER, build_name},
};

use super::{Figure, Options, Unit};
use crate::{
    fleet::{Fleet, PORT},
    lab::Through,
    progress::Progress,
};

/// Batches whose mean cost is one value each.
const BATCHES: usize = 2000;

/// Source port of the flow.
const SOURCE: u16 = 40_000;

/// Sends the same datagram from pod 0 to pod 1, whose policies allow it.
pub(super) fn run(options: &Options) -> Result<Vec<Figure>> {
    let progress = Progress::new(options.json);
    let fleet = Fleet::launch(options.endpoints.into(), Through::Rest, &progress)?;
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
    // The first batch makes the connection.
    packet_cost(&program, host.ifindex, &frame, 1)?;
    for cost in packet_cost(&program, host.ifindex, &frame, BATCHES)? {
        established.push(cost as f64);
    }
    Ok(vec![established])
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
