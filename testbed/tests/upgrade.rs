//! The agent is replaced by one whose programs differ, forward and back, under traffic.

use std::{collections::BTreeMap, env};

use anyhow::{Result, ensure};
use volvox_testbed::{
    fleet::Fleet,
    lab::{self, Binaries, Inventory, Node, Through, build},
    progress::Progress,
    traffic::Stream,
};

/// Pods on the node.
const PODS: usize = 20;

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

#[test]
fn c_13015_every_endpoint_gets_the_new_programs_and_nothing_is_lost() {
    let name = "c_13015_every_endpoint_gets_the_new_programs_and_nothing_is_lost";
    if build::other_agent().is_err() && env::var_os("CI").is_none() {
        eprintln!("SKIPPED: run `cargo run -p volvox-testbed -- other-agent` first");
        return;
    }
    lab::test(name, || {
        let usual = Binaries::find()?;
        let other = usual.with_agent(&build::other_agent()?);
        let progress = Progress::new(true);
        let mut fleet = Fleet::launch(PODS, Through::Cni, &progress)?;
        fleet.settle(&progress)?;
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
            let kept = old.iter().filter(|(pin, program)| new[*pin] == **program).count();
            ensure!(kept == 0, "{kept} programs were not replaced");
        }
        for report in streams.into_iter().map(Stream::stop) {
            let report = report?;
            ensure!(report.is_clean(), "{report:?}");
        }
        ensure!(before.moved(&Inventory::read(&fleet.node)?) == 0, "numbers moved");
        Ok(())
    });
}
