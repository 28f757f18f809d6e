//! A real agent under attack: stolen interfaces, dead disks, death at every system call.

use std::{
    fs::{self, File},
    io::Write,
    path::Path,
};

use anyhow::{Context, Result, ensure};
use rustix::mount::{MountFlags, mount, mount_remount};
use serde_json::{Value, json};
use volvox_testbed::{
    fleet::Fleet,
    judge::leftovers,
    lab::{self, Injection, Inventory, Node, Pod, Through},
    progress::Progress,
    traffic::{Kind, stop_clean},
};

/// Pods on the node.
const PODS: usize = 8;

fn fleet() -> Result<Fleet> {
    Fleet::launch(PODS, Through::Rest, &Progress::new(true))
}

/// Fails unless what policy allows gets through without a loss, and what it forbids does not.
fn assert_policy_holds(fleet: &Fleet) -> Result<()> {
    let allowed = fleet.stream(Kind::Udp, 0, 1, false, 200)?;
    let forbidden = fleet.stream(Kind::Udp, 0, 5, false, 200)?;
    allowed.wait_for_answers(40)?;
    let answers = forbidden.answers();
    stop_clean([allowed])?;
    ensure!(answers == 0, "{answers} packets got through that policy forbids");
    Ok(())
}

/// Fails unless a new endpoint at that interface is refused with words that contain `says`.
fn assert_refused(node: &Node, interface: (&str, u32), says: &str) -> Result<()> {
    let body = json!({
        "container-id": "f".repeat(64),
        "container-interface-name": "eth0",
        "interface-name": interface.0,
        "interface-index": interface.1,
        "addressing": { "ipv4": "10.11.200.7" },
        "state": "waiting-for-identity",
        "sync-build-endpoint": true,
    });
    let answer = node.rest().request("PUT", "/endpoint/0", Some(&body))?;
    let text = String::from_utf8_lossy(&answer.body);
    ensure!(answer.status == 400, "{interface:?}: {} {text}", answer.status);
    ensure!(text.contains(says), "{interface:?}: {text:?} lacks {says:?}");
    Ok(())
}

#[test]
fn nobody_takes_the_interface_of_another() {
    lab::test("nobody_takes_the_interface_of_another", || {
        let fleet = fleet()?;
        let [_, host] = fleet.pods[1].links()?;
        assert_refused(&fleet.node, (&host.name, host.ifindex), "already in use by endpoint")?;
        assert_refused(&fleet.node, ("lo", 1), "the node's own")?;
        assert_refused(&fleet.node, ("lxc1", 9999), "there is none")?;
        assert_refused(&fleet.node, ("lxc1", 0), "interface-index is missing")?;
        let id = &fleet.node.endpoints()?[0]["id"];
        let moved = json!({ "interface-name": "lo", "interface-index": 1 });
        let answer =
            fleet.node.rest().request("PATCH", &format!("/endpoint/{id}"), Some(&moved))?;
        ensure!(answer.status == 400, "an endpoint moved to another interface: {answer:?}");
        ensure!(Inventory::read(&fleet.node)?.len() == PODS, "a refused endpoint is there");
        assert_policy_holds(&fleet)
    });
}

#[test]
fn a_disk_that_is_full_or_read_only_loses_nothing() {
    lab::test("a_disk_that_is_full_or_read_only_loses_nothing", || {
        let disk = Path::new("/run/volvox/cilium");
        fs::create_dir_all(disk)?;
        mount("tmpfs", disk, "tmpfs", MountFlags::empty(), Some(c"size=512k"))?;
        let mut fleet = fleet()?;
        let before = Inventory::read(&fleet.node)?;

        let filler = disk.join("filler");
        let mut file = File::create(&filler)?;
        while file.write_all(&[1; 4096]).is_ok() {}
        drop(file);
        let refused = Pod::create(&fleet.node, "fleet/full", &[("app", "app-1")], Through::Rest);
        let error = format!("{:#}", refused.err().context("a full disk took a record")?);
        ensure!(error.contains("500") && error.contains("free space"), "{error}");
        ensure!(Inventory::read(&fleet.node)? == before, "what failed is still there");
        restart(&mut fleet, &before).context("with a full disk")?;

        fleet.node.kill_agent()?;
        fs::remove_file(&filler)?;
        mount_remount(disk, MountFlags::RDONLY, c"")?;
        fleet.node.start_agent()?;
        restart(&mut fleet, &before).context("with a read-only disk")?;
        let health: Value = fleet.node.rest().get("/healthz")?;
        ensure!(health["cilium"]["state"] == "Warning", "{health:#}");
        ensure!(health["controllers"][0]["name"] == "state-directory", "{health:#}");

        mount_remount(disk, MountFlags::empty(), c"")?;
        restart(&mut fleet, &before)?;
        let health: Value = fleet.node.rest().get("/healthz")?;
        ensure!(health["cilium"]["state"] == "Ok", "{health:#}");
        let pod = Pod::create(&fleet.node, "fleet/late", &[("app", "app-1")], Through::Rest)?;
        pod.delete(&fleet.node)?;
        fleet.node.wait_for_ready(PODS).map(drop)
    });
}

fn restart(fleet: &mut Fleet, before: &Inventory) -> Result<()> {
    fleet.node.kill_agent()?;
    fleet.node.start_agent()?;
    fleet.node.wait_for_ready(PODS)?;
    ensure!(before.moved(&Inventory::read(&fleet.node)?) == 0, "numbers moved");
    assert_policy_holds(fleet)
}

#[test]
fn a_creation_that_is_killed_at_any_system_call_leaves_nothing() {
    lab::test("a_creation_that_is_killed_at_any_system_call_leaves_nothing", || {
        let mut fleet = fleet()?;
        let before = Inventory::read(&fleet.node)?;
        let left_before = leftovers(&fleet.node)?;
        for (call, whens) in [("bpf", 1..=9), ("renameat2", 1..=2), ("sendto", 1..=3)] {
            for when in whens.step_by(2) {
                let name = format!("fleet/{call}-{when}");
                let effect = format!("signal=KILL:when={when}");
                let strace = Injection::attach(fleet.node.agent()?.pid(), call, &effect)?;
                // Whether it came to be does not matter: the runtime deletes what it got no answer for.
                let pod = Pod::create(&fleet.node, &name, &[("app", "app-1")], Through::Rest);
                fleet.node.kill_agent()?;
                drop(strace);
                fleet.node.start_agent()?;
                let path = format!("/endpoint/pod-name:{}", name.replace('/', "%2F"));
                let deleted = fleet.node.rest().request("DELETE", &path, None)?;
                ensure!([200, 404].contains(&deleted.status), "{name}: {deleted:?}");
                drop(pod);
                fleet.node.wait_for_ready(PODS).with_context(|| name.clone())?;
                ensure!(Inventory::read(&fleet.node)? == before, "{name}: numbers moved");
                // What did not come back is cleared away in the background.
                fleet
                    .node
                    .wait("something is left", |node| Ok(leftovers(node)? == left_before))
                    .with_context(|| name.clone())?;
            }
        }
        assert_policy_holds(&fleet)
    });
}
