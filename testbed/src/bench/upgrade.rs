//! An agent whose programs differ takes over, forward and back, under traffic.

use std::{collections::BTreeSet, ffi::OsString, fs, io};

use anyhow::Result;

use super::{Figure, Options, Unit, losses::Losses};
use crate::{
    lab::{Binaries, Inventory, Node, build},
    progress::Progress,
};

/// Kills one build and starts the other, in turn.
pub(super) fn run(options: &Options) -> Result<Vec<Figure>> {
    let progress = Progress::new(options.json);
    let count = usize::from(options.endpoints);
    let usual = Binaries::find()?;
    let other = usual.with_agent(&build::other_agent()?);
    let mut fleet = options.launch(&progress)?;
    let mut ready = Figure::new("upgrade.ready", Unit::Seconds).below(1.0);
    let mut moved = Figure::new("upgrade.moved", Unit::Count).zero();
    let mut losses = Losses::new(["upgrade.lost", "upgrade.lost_control", "upgrade.longest_gap"]);
    let bar = progress.bar("upgrading, forward and back", options.rounds.into());
    losses.measure(&mut fleet, |fleet| {
        for round in 0..options.rounds {
            let before = Inventory::read(&fleet.node)?;
            let old = generations(&fleet.node)?;
            let next = if round % 2 == 0 { &other } else { &usual };
            fleet.node.switch_to(next.clone());
            fleet.node.kill_agent()?;
            fleet.node.exec_agent()?;
            fleet.node.wait_for_ready(count)?;
            ready.push_time(fleet.node.wait("old programs still run", |node| {
                let new = generations(node)?;
                Ok(new.len() == 1 && new != old)
            })?);
            moved.push_count(before.moved(&Inventory::read(&fleet.node)?) as u64);
            bar.inc(1);
        }
        Ok(())
    })?;
    bar.finish();
    Ok([ready, moved].into_iter().chain(losses.figures()).collect())
}

/// Builds of the programs that are pinned. The agent unpins one when no endpoint uses it any more.
fn generations(node: &Node) -> Result<BTreeSet<OsString>> {
    let pinned = fs::read_dir(node.bpf_root().join("volvox/progs"))?;
    Ok(pinned.map(|entry| Ok(entry?.file_name())).collect::<io::Result<_>>()?)
}
