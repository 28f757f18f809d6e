//! How much goes through one connection from pod to pod, against namespaces that a bare pair of
//! interfaces joins.

use std::{net::SocketAddr, process::Command, time::Duration};

use anyhow::{Result, ensure};

use super::{Figure, Unit};
use crate::{
    fleet::{Fleet, PORT},
    lab::Netns,
    traffic::bulk,
};

/// How often both are measured, in turn.
const TURNS: usize = 8;
/// How long each.
const SPAN: Duration = Duration::from_millis(800);

/// `throughput.local`: pod 0 to pod 1, in terms of the bare pair.
pub(super) fn local(fleet: &Fleet) -> Result<[Figure; 2]> {
    let [from, to] = [&fleet.pods[0], &fleet.pods[1]];
    let target = SocketAddr::new(to.address(false)?, PORT);
    let (bare, bare_target) = bare_pair()?;
    let mut ratio = Figure::new("throughput.local", Unit::Ratio).above(0.9);
    let mut rate = Figure::new("throughput.local_rate", Unit::Megabytes);
    for _ in 0..TURNS {
        let ours = bulk(&from.netns, &to.netns, target, SPAN)?;
        let theirs = bulk(&bare[0], &bare[1], bare_target, SPAN)?;
        ratio.push(ours / theirs);
        rate.push(ours / 1e6);
    }
    Ok([ratio, rate])
}

/// Two namespaces, and the address of the second.
fn bare_pair() -> Result<([Netns; 2], SocketAddr)> {
    let pair = [Netns::create("bare-0")?, Netns::create("bare-1")?];
    for words in [
        "link add eth0 netns bare-0 type veth peer name eth0 netns bare-1",
        "-n bare-0 addr add 203.0.113.1/24 dev eth0",
        "-n bare-1 addr add 203.0.113.2/24 dev eth0",
        "-n bare-0 link set eth0 up",
        "-n bare-1 link set eth0 up",
    ] {
        let status = Command::new("ip").args(words.split(' ')).status()?;
        ensure!(status.success(), "ip {words}: {status}");
    }
    Ok((pair, SocketAddr::new("203.0.113.2".parse()?, PORT)))
}
