//! Restarts of a real agent on a node with pods.

use std::{fs, net::SocketAddr, path::Path, process::Command, thread, time::Duration};

use anyhow::{Result, ensure};
use serde_json::Value;
use volvox_sim::random::Random;
use volvox_testbed::{
    fleet::{Fleet, PORT},
    lab::{self, Calls, Inventory, Metrics, Node, Through},
    progress::Progress,
    traffic::{Kind, Plan, Stream, stop_clean},
};

/// Pods on the node.
const PODS: usize = 20;

fn fleet(through: Through) -> Result<Fleet> {
    Fleet::launch(PODS, through, &Progress::new(true))
}

fn restart(node: &mut Node) -> Result<()> {
    node.kill_agent()?;
    node.start_agent()?;
    node.wait_for_ready(PODS).map(drop)
}

/// Fails unless the agent looked at its node and found nothing wrong.
fn assert_sound(node: &mut Node) -> Result<()> {
    node.wait("the agent does not look at its node", |node| {
        let metrics = Metrics::scrape(node.rest())?;
        Ok(metrics.family("volvox_audits_total").any(|(_, looks)| looks >= 1.0))
    })?;
    let health: Value = node.rest().get("/healthz")?;
    ensure!(health["cilium"]["state"] == "Ok", "{:#}", health["controllers"]);
    Ok(())
}

#[test]
fn no_packet_is_lost_whenever_the_agent_is_killed() {
    lab::test("no_packet_is_lost_whenever_the_agent_is_killed", || {
        let mut fleet = fleet(Through::Cni)?;
        let before = Inventory::read(&fleet.node)?;
        let streams = fleet.all_streams()?;
        let forbidden = fleet.stream(Kind::Udp, 0, 5, false, 100)?;
        let mut random = Random::new(7);
        for _ in 0..10 {
            fleet.node.kill_agent()?;
            fleet.node.exec_agent()?;
            thread::sleep(random.below(Duration::from_millis(150)));
        }
        fleet.node.wait_for_ready(PODS)?;
        restart(&mut fleet.node)?;
        assert_sound(&mut fleet.node)?;
        stop_clean(streams)?;
        ensure!(forbidden.answers() == 0, "a packet got through that policy forbids");
        ensure!(before.moved(&Inventory::read(&fleet.node)?) == 0, "numbers moved");
        Ok(())
    });
}

#[test]
fn c_29795_an_unchanged_restart_writes_nothing() {
    lab::test("c_29795_an_unchanged_restart_writes_nothing", || {
        let mut fleet = fleet(Through::Rest)?;
        let calls = fleet.node.trace_calls("calls");
        restart(&mut fleet.node)?;
        // Settled: nothing more is about to be written.
        thread::sleep(Duration::from_secs(1));
        fleet.node.stop_agent()?;
        let calls = Calls::read(&calls)?;
        ensure!(
            calls.opened > 0 && calls.writes.is_empty(),
            "the kernel was written to: {calls:?}"
        );
        Ok(())
    });
}

#[test]
fn a_lost_state_directory_is_rebuilt_from_the_kernel() {
    lab::test("a_lost_state_directory_is_rebuilt_from_the_kernel", || {
        let mut fleet = fleet(Through::Rest)?;
        let before = Inventory::read(&fleet.node)?;
        let streams = fleet.all_streams()?;
        fleet.node.kill_agent()?;
        fs::remove_dir_all(fleet.node.path("cilium/state"))?;
        fleet.node.start_agent()?;
        fleet.node.wait_for_ready(PODS)?;
        stop_clean(streams)?;
        let after = Inventory::read(&fleet.node)?;
        ensure!(before.moved(&after) == 0, "before {before:#?} after {after:#?}");
        Ok(())
    });
}

#[test]
fn c_12367_a_torn_record_costs_no_endpoint() {
    lab::test("c_12367_a_torn_record_costs_no_endpoint", || {
        let mut fleet = fleet(Through::Rest)?;
        let before = Inventory::read(&fleet.node)?;
        fleet.node.kill_agent()?;
        let mut torn = 0;
        for entry in fs::read_dir(fleet.node.path("cilium/state"))? {
            let record = entry?.path().join("ep_config.json");
            if torn < 3 && record.exists() {
                let text = fs::read(&record)?;
                fs::write(&record, &text[..text.len() / 2])?;
                torn += 1;
            }
        }
        ensure!(torn == 3, "there are no records to tear");
        fleet.node.start_agent()?;
        fleet.node.wait_for_ready(PODS)?;
        ensure!(before.moved(&Inventory::read(&fleet.node)?) == 0, "numbers moved");
        Ok(())
    });
}

#[test]
fn a_stopped_agent_leaves_the_datapath_serving_and_uninstall_leaves_nothing() {
    let name = "a_stopped_agent_leaves_the_datapath_serving_and_uninstall_leaves_nothing";
    lab::test(name, || {
        let mut fleet = fleet(Through::Rest)?;
        fleet.node.stop_agent()?;
        let stream = fleet.stream(Kind::Udp, 0, 1, false, 500)?;
        stream.wait_for_answers(100)?;
        stop_clean([stream])?;
        let uninstalled = Command::new(&fleet.node.binaries().agent)
            .arg("uninstall")
            .args(fleet.node.arguments())
            .output()?;
        let printed = String::from_utf8_lossy(&uninstalled.stdout);
        ensure!(uninstalled.status.success(), "uninstall: {uninstalled:?}");
        ensure!(printed.contains("cilium_lxc"), "it does not say what it removed: {printed}");
        let left = pins(fleet.node.bpf_root())?;
        ensure!(left.is_empty(), "uninstall left {left:?}");
        Ok(())
    });
}

/// Every pin below a folder of the BPF file system; the kernel's own files are `*.debug`.
fn pins(folder: &Path) -> Result<Vec<String>> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            all.extend(pins(&path)?);
        } else if path.extension().is_none_or(|end| end != "debug") {
            all.push(path.display().to_string());
        }
    }
    Ok(all)
}

#[test]
fn a_second_agent_on_the_same_state_is_refused() {
    lab::test("a_second_agent_on_the_same_state_is_refused", || {
        let fleet = fleet(Through::Rest)?;
        let second =
            Command::new(&fleet.node.binaries().agent).args(fleet.node.arguments()).output()?;
        ensure!(!second.status.success(), "two agents run on one state directory");
        let printed = [second.stdout, second.stderr].concat();
        let printed = String::from_utf8_lossy(&printed);
        ensure!(printed.contains("/run/volvox"), "it does not name what is in use: {printed}");
        Ok(())
    });
}

#[test]
fn a_new_pod_is_reached_after_a_restart() {
    lab::test("a_new_pod_is_reached_after_a_restart", || {
        let mut fleet = fleet(Through::Rest)?;
        restart(&mut fleet.node)?;
        let pod = lab::Pod::create(&fleet.node, "fleet/late", &[("app", "app-1")], Through::Cni)?;
        let taken: Vec<_> = fleet.pods.iter().flat_map(|pod| &pod.addresses).collect();
        ensure!(!pod.addresses.iter().any(|new| taken.contains(&new)), "an address twice");
        for ipv6 in [false, true] {
            let target = SocketAddr::new(pod.address(ipv6)?, PORT);
            let (from, to) = (fleet.pods[0].netns.clone(), pod.netns.clone());
            let stream = Stream::start(Plan { kind: Kind::Tcp, from, to, target, rate: 100 })?;
            stream.wait_for_answers(20)?;
            stop_clean([stream])?;
        }
        pod.delete(&fleet.node)?;
        fleet.node.wait_for_ready(PODS).map(drop)
    });
}

#[test]
fn an_agent_that_restores_nothing_serves_only_what_is_new_and_gives_no_number_twice() {
    let name = "an_agent_that_restores_nothing_serves_only_what_is_new_and_gives_no_number_twice";
    lab::test(name, || {
        let mut fleet = fleet(Through::Rest)?;
        let before = Inventory::read(&fleet.node)?;
        let stream = fleet.stream(Kind::Udp, 0, 1, false, 200)?;
        stream.wait_for_answers(20)?;
        fleet.node.kill_agent()?;
        fleet.node.set_flag("restore", Some("false"));
        fleet.node.start_agent()?;
        fleet.node.wait_until_restored()?;
        fleet.node.wait("it does not say what it left", |node| {
            let health: Value = node.rest().get("/healthz")?;
            Ok(health.to_string().contains("left alone (--restore=false)"))
        })?;
        // Nothing reaches them any more, and what is new is served beside them.
        let answered = stream.answers();
        thread::sleep(Duration::from_millis(500));
        ensure!(
            stream.answers() == answered,
            "an endpoint that the agent does not know is reached"
        );
        stream.stop()?;
        let pods = ["fleet/new-1", "fleet/new-2"]
            .map(|name| lab::Pod::create(&fleet.node, name, &[("app", "app-1")], Through::Cni));
        let [from, to] = pods;
        let (from, to) = (from?, to?);
        let taken: Vec<_> = fleet.pods.iter().flat_map(|pod| &pod.addresses).collect();
        let is_new = |pod: &lab::Pod| pod.addresses.iter().all(|new| !taken.contains(&new));
        ensure!(is_new(&from) && is_new(&to), "an address twice: {from:?} {to:?}");
        let target = SocketAddr::new(to.address(false)?, PORT);
        let (client, server) = (from.netns.clone(), to.netns.clone());
        let stream =
            Stream::start(Plan { kind: Kind::Tcp, from: client, to: server, target, rate: 100 })?;
        stream.wait_for_answers(20)?;
        stop_clean([stream])?;
        let new = Inventory::read(&fleet.node)?;
        ensure!(new.len() == 2 && !new.shares_numbers_with(&before), "a number twice: {new:?}");

        // All of them are there again for an agent that restores.
        fleet.node.kill_agent()?;
        fleet.node.set_flag("restore", None);
        fleet.node.start_agent()?;
        fleet.node.wait_for_ready(PODS + 2)?;
        let after = Inventory::read(&fleet.node)?;
        ensure!(before.moved(&after) + new.moved(&after) == 0, "numbers moved: {after:#?}");
        let streams = fleet.all_streams()?;
        streams.iter().try_for_each(|stream| stream.wait_for_answers(20))?;
        stop_clean(streams)
    });
}
