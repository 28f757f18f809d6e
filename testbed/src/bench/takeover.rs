//! A node of ten pods is taken over from what stands in for Cilium, and given back, again and again, under traffic.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::{Figure, Options, Unit, losses::Losses};
use crate::{
    fleet::Fleet,
    lab::{Binaries, Former, Inventory, Node, Through},
    progress::Progress,
    traffic::Kind,
};

/// Pods on the node.
const PODS: usize = 10;
/// The version that is stood in for.
const VERSION: &str = "1.19.4";

/// Starts an agent where Cilium's programs serve, until all is ready; then Cilium has it back.
pub(super) fn run(options: &Options) -> Result<Vec<Figure>> {
    let progress = Progress::new(options.json);
    let mut node = Node::new(Binaries::find()?)?;
    node.ipv4_only().set_flag("take-over", Some("cilium"));
    options.add_flags(&mut node);
    let mut fleet = Fleet::launch_on(node, PODS, Through::Rest, &progress)?;
    let config: Value = fleet.node.rest().get("/config")?;
    let router = config["status"]["addressing"]["ipv4"]["ip"].as_str().context("no router")?;
    let (routers, before) = ([router.parse()?], Inventory::read(&fleet.node)?);
    fleet.node.stop_agent()?;
    Former::settle(&fleet.node, VERSION, &routers)?;
    let mut ready = Figure::new("takeover.ready", Unit::Seconds).below(1.0);
    let mut moved = Figure::new("takeover.moved", Unit::Count).zero();
    let mut passed = Figure::new("takeover.let_through", Unit::Count).zero();
    let mut losses =
        Losses::new(["takeover.lost", "takeover.lost_control", "takeover.longest_gap"]);
    let forbidden = fleet.stream(Kind::Udp, 0, 5, false, 500)?;
    let bar = progress.bar("taking over, and giving back", options.rounds.into());
    losses.measure(&mut fleet, |fleet| {
        for _ in 0..options.rounds {
            fleet.node.exec_agent()?;
            ready.push_time(fleet.node.wait_for_ready(PODS)?);
            moved.push_count(before.moved(&Inventory::read(&fleet.node)?) as u64);
            fleet.node.stop_agent()?;
            hand_back(&fleet.node)?;
            Former::settle(&fleet.node, VERSION, &routers)?;
            bar.inc(1);
        }
        Ok(())
    })?;
    bar.finish();
    passed.push_count(forbidden.answers());
    drop(forbidden);
    Ok([ready, moved, passed].into_iter().chain(losses.figures()).collect())
}

fn hand_back(node: &Node) -> Result<()> {
    let mut command = Command::new(&node.binaries().agent);
    let done = command.arg("hand-back").args(node.arguments()).output()?;
    ensure!(done.status.success(), "hand-back: {done:?}");
    Ok(())
}
