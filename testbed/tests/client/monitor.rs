//! `volvox monitor`: what it shows, to how many, and whether the agent lives or not.

use std::{
    collections::BTreeSet,
    fs,
    io::{BufRead, BufReader, Read},
    process::{Child, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
};

use anyhow::{Context, Result, anyhow, ensure};
use aya::util::online_cpus;
use serde_json::Value;
use volvox_testbed::lab::{self, Node, Pod, wait_for};

use super::setup::{offend, start};

/// A client that watches for drops; killed when it is dropped.
pub(crate) struct Monitor {
    child: Child,
    drops: Receiver<String>,
    remarks: Receiver<String>,
}

impl Monitor {
    pub(crate) fn start(node: &Node) -> Result<Self> {
        let mut command = node.client("-o json monitor --type drop");
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let drops = lines(child.stdout.take().context("no pipe")?);
        let remarks = lines(child.stderr.take().context("no pipe")?);
        Ok(Self { child, drops, remarks })
    }

    /// Drops of what [`offend`] sent that were shown since the last call.
    fn drops(&self) -> Result<Vec<Value>> {
        let drops = self.drops.try_iter().map(|line| Ok(serde_json::from_str(&line)?));
        let mut drops: Vec<Value> = drops.collect::<Result<_>>()?;
        drops.retain(|drop| drop["packet"]["destination-port"] == 9);
        Ok(drops)
    }

    /// Offends until one of these offences is shown.
    pub(crate) fn wait_for_drop(&self, pods: &[Pod; 2]) -> Result<Value> {
        let mut sent = BTreeSet::new();
        let mut found = None;
        wait_for("a drop is shown", || {
            // Again and again: the monitor may not be listening yet.
            sent.insert(offend(pods)?);
            found = self.drops()?.into_iter().find(|drop| sent.contains(&port(drop)));
            Ok(found.is_some())
        })?;
        found.context("none was found")
    }

    /// Waits until it says something of the kind on stderr.
    fn wait_for_remark(&self, part: &str) -> Result<()> {
        wait_for(part, || Ok(self.remarks.try_iter().any(|line| line.contains(part))))
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Lines as they come. The thread ends with the pipe, when its writer is killed.
fn lines(pipe: impl Read + Send + 'static) -> Receiver<String> {
    let (tell, reported) = channel();
    let lines = BufReader::new(pipe).lines();
    thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| tell.send(line)));
    reported
}

/// The port that a dropped packet came from.
fn port(drop: &Value) -> u16 {
    drop["packet"]["source-port"].as_u64().and_then(|port| port.try_into().ok()).unwrap_or(0)
}

/// Rings that a process has open, for records or for signals.
fn rings(pid: u32) -> Result<usize> {
    let open = fs::read_dir(format!("/proc/{pid}/fd"))?;
    let targets = open.filter_map(|fd| fs::read_link(fd.ok()?.path()).ok());
    Ok(targets.filter(|target| target.to_string_lossy().contains("[perf_event]")).count())
}

/// Offends until all of these monitors show one and the same offence.
fn wait_for_common_drop(pods: &[Pod; 2], monitors: &[Monitor]) -> Result<()> {
    let mut sent = BTreeSet::new();
    let mut seen = vec![BTreeSet::new(); monitors.len()];
    wait_for("a drop that all show", || {
        sent.insert(offend(pods)?);
        for (monitor, seen) in monitors.iter().zip(&mut seen) {
            seen.extend(monitor.drops()?.iter().map(port));
        }
        Ok(sent.iter().any(|port| seen.iter().all(|seen| seen.contains(port))))
    })
}

#[test]
fn the_monitor_names_the_rule_that_dropped_a_packet() {
    lab::test("monitor::the_monitor_names_the_rule_that_dropped_a_packet", || {
        let (node, pods) = start()?;
        let monitor = Monitor::start(&node)?;
        let drop = monitor.wait_for_drop(&pods)?;
        ensure!(drop["reason-text"] == "Policy denied by denylist", "{drop}");
        ensure!(drop["packet"]["destination"] == pods[0].address(false)?.to_string());
        let origin = "web.yaml: CiliumNetworkPolicy shop/web: spec.ingressDeny[0]";
        ensure!(drop["origins"] == serde_json::json!([origin]), "{drop}");
        Ok(())
    });
}

#[test]
fn two_monitors_see_the_same_drop_and_without_them_the_rings_are_closed() {
    lab::test(
        "monitor::two_monitors_see_the_same_drop_and_without_them_the_rings_are_closed",
        || {
            let (mut node, pods) = start()?;
            let agent = node.agent()?.pid();
            // It hears signals all the time, by a ring of each CPU.
            let signals = online_cpus().map_err(|(what, error)| anyhow!("{what}: {error}"))?.len();
            wait_for("nobody listens yet", || Ok(rings(agent)? == signals))?;
            let monitors = [Monitor::start(&node)?, Monitor::start(&node)?];
            wait_for_common_drop(&pods, &monitors)?;
            ensure!(rings(agent)? > signals, "the agent reads");
            drop(monitors);
            wait_for("the agent reads no more", || Ok(rings(agent)? == signals))
        },
    );
}

#[test]
fn a_monitor_outlives_the_agent_and_finds_the_next_one() {
    lab::test("monitor::a_monitor_outlives_the_agent_and_finds_the_next_one", || {
        let (mut node, pods) = start()?;
        let monitor = Monitor::start(&node)?;
        monitor.wait_for_drop(&pods)?;
        node.kill_agent()?;
        monitor.wait_for_remark("the agent has gone")?;
        monitor.wait_for_drop(&pods)?;
        node.start_agent()?;
        monitor.wait_for_remark("the agent is back")?;
        monitor.wait_for_drop(&pods)?;
        // Told to end, the agent leaves the same way.
        node.stop_agent()?;
        monitor.wait_for_remark("the agent has gone")?;
        monitor.wait_for_drop(&pods).map(drop)
    });
}

#[test]
fn without_an_agent_one_monitor_reads_for_all() {
    lab::test("monitor::without_an_agent_one_monitor_reads_for_all", || {
        let (mut node, pods) = start()?;
        node.kill_agent()?;
        let first = Monitor::start(&node)?;
        first.wait_for_drop(&pods)?;
        let mut monitors = vec![first, Monitor::start(&node)?];
        wait_for_common_drop(&pods, &monitors)?;
        ensure!(rings(monitors[0].child.id())? > 0 && rings(monitors[1].child.id())? == 0);
        // It is killed, and another takes its part.
        drop(monitors.remove(0));
        monitors.push(Monitor::start(&node)?);
        wait_for_common_drop(&pods, &monitors)?;
        node.start_agent()?;
        for monitor in &monitors {
            monitor.wait_for_remark("the agent is back")?;
        }
        wait_for_common_drop(&pods, &monitors)?;
        for monitor in &monitors {
            ensure!(rings(monitor.child.id())? == 0, "the agent is the only reader");
        }
        Ok(())
    });
}
