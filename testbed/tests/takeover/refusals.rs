//! What keeps a takeover from being begun is named, with all of it, and nothing is touched.

use std::{
    fs,
    path::Path,
    process::{Child, Command},
};

use anyhow::{Context, Result, ensure};
use volvox_maps::sys::{self, Map, NewMap, TCX_INGRESS};
use volvox_system::netlink::Socket;
use volvox_testbed::lab::{self, Former};

use super::{Left, PODS, VERSION, end, text};

/// Fails unless check and start refuse it with these words, and leave all as it is.
fn refuses(left: &Left, words: &str) -> Result<()> {
    let (node, programs) = (&left.fleet.node, left.programs()?);
    let check = left.check()?;
    let said = text(&check);
    ensure!(!check.status.success() && said.contains(words), "no {words:?}: {said}");
    let mut start = Command::new(&node.binaries().agent);
    start.args(node.arguments()).arg("--take-over=cilium");
    let started = start.output()?;
    let said = text(&started);
    ensure!(!started.status.success() && said.contains(words), "no {words:?}: {said}");
    ensure!(said.contains("nothing was touched"), "{said}");
    ensure!(left.programs()? == programs, "it changed what Cilium left");
    Ok(())
}

fn map(name: &str, path: &Path, (key_size, value_size): (u32, u32)) -> Result<Map> {
    let (max_entries, flags, inner) = (64, 0, None);
    let new = NewMap { name, map_type: 1, key_size, value_size, max_entries, flags, inner };
    let map = Map::create(&new)?;
    sys::pin(&map, path)?;
    Ok(map)
}

/// A process that goes by the name of Cilium's agent.
struct Agent(Child);

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn what_keeps_a_takeover_from_being_begun_is_named_and_nothing_is_touched() {
    let name = "refusals::what_keeps_a_takeover_from_being_begun_is_named_and_nothing_is_touched";
    lab::test(name, || {
        let mut left = Left::launch(&[])?;
        let streams = left.streams()?;
        let globals = left.fleet.node.bpf_root().join("tc/globals");

        // Cilium's agent still runs.
        let agent = Command::new("bash").args(["-c", "exec -a cilium-agent sleep 600"]).spawn()?;
        let agent = Agent(agent);
        let pid = left.fleet.node.path("cilium/cilium.pid");
        fs::write(&pid, agent.0.id().to_string())?;
        lab::wait_for("it has the name", || {
            let line = fs::read_to_string(format!("/proc/{}/cmdline", agent.0.id()))?;
            Ok(line.contains("cilium-agent"))
        })?;
        refuses(&left, "stop it first")?;
        drop(agent);

        // Something is in force that is not there.
        let place = globals.join("cilium_l2_responder_v4");
        map("cilium_l2_responder_v4", &place, (8, 8))?.update(&[1; 8], &[0; 8])?;
        refuses(&left, "L2 announcements")?;
        fs::remove_file(place)?;

        // A rule leads to a proxy.
        let policy = fs::read_dir(&globals)?.flatten().map(|entry| entry.path());
        let is_policy =
            |path: &std::path::PathBuf| path.to_string_lossy().contains("cilium_policy_v2_");
        let policy = Map::pinned(&policy.into_iter().find(is_policy).context("no policy")?)?;
        let key = [64, 0, 0, 0, 9, 9, 0, 0, 0, 6, 0, 80];
        policy.update(&key, &[0x27, 0x10, 24 << 3, 0, 0, 1, 0, 0, 0, 0, 0, 0])?;
        refuses(&left, "rules for L7 or DNS")?;
        policy.delete(&key)?;

        // A map whose rows mean something else.
        let (place, aside) =
            (globals.join("cilium_lb4_reverse_nat"), globals.join("cilium_lb4_reverse_nat_aside"));
        fs::rename(&place, &aside)?;
        map("cilium_lb4_reverse_nat", &place, (2, 22))?;
        refuses(&left, "map cilium_lb4_reverse_nat is of another layout")?;
        fs::rename(&aside, &place)?;

        // A third agent's program stands at the hook of a pod.
        let [_, host] = left.fleet.pods[0].links()?;
        let ifindex = Socket::open()?.link_by_name(&host.name)?.context("no interface")?.ifindex;
        let third = sys::load_pass_as("third_party")?;
        let link = sys::link_create(&third, ifindex, TCX_INGRESS)?;
        // One that passes everything on would pass what policy forbids: it stands there for a moment only.
        let done = refuses(&left, "third_party");
        drop(link);
        done?;
        lab::wait_for("it is gone", || Ok(sys::running(ifindex, TCX_INGRESS)?.len() == 1))?;

        // None of that is left.
        left.take_over()?;
        // A second agent of ours is none that takes over.
        let node = &left.fleet.node;
        let mut second = Command::new(&node.binaries().agent);
        let second = second.args(node.arguments()).output()?;
        ensure!(text(&second).contains("in use"), "{}", text(&second));
        for stream in streams.0 {
            stream.stop()?;
        }
        Ok(())
    });
}

#[test]
fn a_cilium_of_another_version_is_refused_unless_it_is_told_to_go_on() {
    let name = "refusals::a_cilium_of_another_version_is_refused_unless_it_is_told_to_go_on";
    lab::test(name, || {
        let mut left = Left::launch(&[])?;
        Former::settle(&left.fleet.node, "1.16.6", &left.routers)?;
        let streams = left.streams()?;
        refuses(&left, "Cilium 1.16.6")?;
        left.fleet.node.set_flag("take-over-without-features", Some("true"));
        let said = text(&left.check()?);
        ensure!(said.contains("Cilium 1.16.6") && !said.contains(VERSION), "{said}");
        left.take_over()?;
        ensure!(left.fleet.node.endpoints()?.len() == PODS);
        end(streams)
    });
}
