//! The agent is replaced by one whose programs differ, forward and back, under traffic.

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
};

use anyhow::{Context, Result, ensure};
use volvox_testbed::{
    fleet::Fleet,
    judge::Watcher,
    lab::{self, Binaries, Calls, Inventory, Node, Through, build},
    progress::Progress,
    traffic::stop_clean,
};

/// Pods on the node.
const PODS: usize = 20;

/// The same where it is restarted often.
const FEW_PODS: usize = 8;

/// Program that runs at each pinned link, as the kernel numbers it.
fn attached(node: &Node) -> Result<BTreeMap<String, u32>> {
    let mut programs = BTreeMap::new();
    for endpoint in node.rest().get::<Vec<serde_json::Value>>("/endpoint")? {
        for hook in ["cil_from_container", "cil_to_container"] {
            let pin = format!("cilium/endpoints/{}/links/{hook}", endpoint["id"]);
            let link = aya::programs::links::PinnedLink::from_pin(node.bpf_root().join(&pin))?;
            let link = aya::programs::links::FdLink::from(link);
            programs.insert(pin, link.info()?.program_id());
        }
    }
    Ok(programs)
}

/// Whether the other agent is there; CI has built it.
fn other_is_built() -> bool {
    let built = build::other_agent().is_ok() || env::var_os("CI").is_some();
    if !built {
        volvox_system::complain!("SKIPPED: run `cargo run -p volvox-testbed -- other-agent` first");
    }
    built
}

/// About how many moments of an upgrade it is killed at.
const MOMENTS: u32 = 20;

/// c 24191: a restart stripped pods of their programs; c 28088: programs of two generations met.
#[test]
fn c_24191_an_upgrade_killed_anywhere_takes_no_program_away() {
    let name = "c_24191_an_upgrade_killed_anywhere_takes_no_program_away";
    if !other_is_built() {
        return;
    }
    lab::test(name, || {
        let usual = Binaries::find()?;
        let other = usual.with_agent(&build::other_agent()?);
        let mut fleet = Fleet::launch(FEW_PODS, Through::Rest, &Progress::new(true))?;
        let before = Inventory::read(&fleet.node)?;
        let streams = fleet.all_streams()?;
        let watcher = Watcher::start()?;
        fleet.pods.iter().try_for_each(|pod| watcher.watch(pod))?;

        // How many calls an upgrade takes.
        let calls = fleet.node.trace_calls("calls");
        restart(&mut fleet.node, &other)?;
        fleet.node.stop_agent()?;
        fleet.node.trace_no_calls();
        let most = Calls::read(&calls)?.most_in_a_thread;
        ensure!(most > MOMENTS, "an upgrade of {most} calls");
        fleet.node.start_agent()?;

        let (mut killed, mut next, mut last) = (0, &usual, &other);
        for when in (1..=most).step_by(most.div_ceil(MOMENTS) as usize) {
            fleet.node.kill_agent()?;
            fleet.node.switch_to(next.clone());
            fleet.node.doom("bpf", when);
            fleet.node.exec_agent()?;
            killed += u32::from(!fleet.node.ready_or_ended(FEW_PODS)?);
            restart(&mut fleet.node, next).with_context(|| format!("killed at call {when}"))?;
            let programs: BTreeSet<u32> = attached(&fleet.node)?.into_values().collect();
            ensure!(programs.len() == 2, "killed at call {when}: programs {programs:?}");
            (next, last) = (last, next);
        }
        ensure!(killed > MOMENTS / 2, "it was killed {killed} times only");
        let dips = watcher.stop()?;
        ensure!(dips == 0, "{dips} times a hook had no program");
        stop_clean(streams)?;
        ensure!(before.moved(&Inventory::read(&fleet.node)?) == 0, "numbers moved");
        Ok(())
    });
}

fn restart(node: &mut Node, binaries: &Binaries) -> Result<()> {
    node.kill_agent()?;
    node.switch_to(binaries.clone());
    node.start_agent()?;
    node.wait_for_ready(FEW_PODS).map(drop)
}

#[test]
fn c_13015_every_endpoint_gets_the_new_programs_and_nothing_is_lost() {
    let name = "c_13015_every_endpoint_gets_the_new_programs_and_nothing_is_lost";
    if !other_is_built() {
        return;
    }
    lab::test(name, || {
        let usual = Binaries::find()?;
        let other = usual.with_agent(&build::other_agent()?);
        let mut fleet = Fleet::launch(PODS, Through::Cni, &Progress::new(true))?;
        let before = Inventory::read(&fleet.node)?;
        let streams = fleet.all_streams()?;
        for next in [&other, &usual, &other] {
            let old = attached(&fleet.node)?;
            fleet.node.kill_agent()?;
            fleet.node.switch_to(next.clone());
            fleet.node.start_agent()?;
            fleet.node.wait_for_ready(PODS)?;
            let new = attached(&fleet.node)?;
            ensure!(old.len() == 2 * PODS && old.keys().eq(new.keys()), "{old:?} {new:?}");
            let retained = old.iter().filter(|(pin, program)| new[*pin] == **program).count();
            ensure!(retained == 0, "{retained} programs were not replaced");
        }
        stop_clean(streams)?;
        ensure!(before.moved(&Inventory::read(&fleet.node)?) == 0, "numbers moved");
        Ok(())
    });
}
