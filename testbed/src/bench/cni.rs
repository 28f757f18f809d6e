//! A pod's network, made by our plugin and by the bridge plugin of containernetworking-plugins in turn:
//! the whole of `ADD`, as a container runtime waits for it.

use std::{
    path::Path,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::{Figure, Options, Unit};
use crate::{
    lab::{Binaries, Node, Pod, cni},
    progress::Progress,
};

/// Where Debian and others put the bridge plugin.
const BRIDGE: [&str; 2] = ["/usr/lib/cni/bridge", "/opt/cni/bin/bridge"];
/// How many pods each makes before it is measured: the bridge is made with the first one, and an agent gives
/// back what its start took.
const WARMING: usize = 5;
/// How many pods are made at once.
const AT_ONCE: usize = 20;
/// Between one pod of a row and the next.
const PAUSE: Duration = Duration::from_millis(100);

pub(super) fn run(options: &Options) -> Result<Vec<Figure>> {
    let bridge = BRIDGE.iter().map(Path::new).find(|path| path.is_file());
    let bridge = bridge.context("install the package containernetworking-plugins")?;
    let mut node = Node::new(Binaries::find()?)?;
    // Neither has IPv6: the bridge plugin would wait for the kernel to look for others of its address.
    node.ipv4_only();
    node.start_agent()?;
    node.wait("it writes no CNI configuration", |node| {
        Ok(node.path("cni/05-volvox.conflist").exists())
    })?;
    let others = json!({
        "cniVersion": "1.0.0", "name": "other", "type": "bridge", "bridge": "other0",
        "isGateway": true,
        "ipam": {
            "type": "host-local", "subnet": "10.99.0.0/16", "dataDir": node.path("host-local"),
        },
    });
    let mut alone = [Figure::new("cni.add", Unit::Seconds).below(0.008), named("cni.bridge")];
    let mut row = [named("cni.add_in_a_row"), named("cni.bridge_in_a_row")];
    let mut together = [named("cni.add_at_once"), named("cni.bridge_at_once")];
    let rounds = usize::from(options.rounds);
    let progress = Progress::new(options.json);
    let bar = progress.bar("making pods", 6 * rounds);
    // Who is first may find something warmer or colder.
    let order = |round: usize| if round.is_multiple_of(2) { [0, 1] } else { [1, 0] };
    let plugin = |whose: usize| (whose == 1).then_some((bridge, &others));
    // One by one first, and the namespaces go after all of them: the kernel takes apart many at once, and
    // whoever changes a network meanwhile waits.
    let mut left = Vec::new();
    for warming in 0..WARMING {
        for whose in order(warming) {
            left.extend(added(&node, &format!("first-{warming}-{whose}"), 1, plugin(whose))?.1);
        }
        thread::sleep(Duration::from_secs(1));
    }
    for round in 0..rounds {
        for whose in order(round) {
            let (times, pods) = added(&node, &format!("alone-{round}-{whose}"), 1, plugin(whose))?;
            times.into_iter().for_each(|time| alone[whose].push_time(time));
            left.extend(pods);
            bar.inc(1);
        }
    }
    forget(&node, left)?;
    // They stay: what a plugin leaves for later falls upon the pods after it.
    for (whose, figure) in row.iter_mut().enumerate() {
        let mut staying = Vec::new();
        for nth in 0..rounds {
            let (times, pods) = made(&node, &format!("row-{nth}-{whose}"), 1, plugin(whose))?;
            times.into_iter().for_each(|time| figure.push_time(time));
            staying.extend(pods);
            bar.inc(1);
            thread::sleep(PAUSE);
        }
        delete(&node, &staying, plugin(whose))?;
        forget(&node, staying)?;
    }
    for round in 0..rounds {
        for whose in order(round) {
            let name = format!("many-{round}-{whose}");
            let (times, pods) = added(&node, &name, AT_ONCE, plugin(whose))?;
            times.into_iter().for_each(|time| together[whose].push_time(time));
            forget(&node, pods)?;
            bar.inc(1);
        }
    }
    bar.finish();
    let ratio = |name, [ours, others]: [f64; 2]| {
        let mut figure = Figure::new(name, Unit::Ratio).below(0.5);
        figure.push(ours / others);
        figure
    };
    let middle = |of: &[Figure; 2]| [of[0].spread()[1], of[1].spread()[1]];
    let ratios = [
        ratio("cni.ratio", middle(&alone)),
        ratio("cni.ratio_at_once", middle(&together)),
        ratio("cni.ratio_at_once_90", [together[0].rank(90), together[1].rank(90)]),
    ];
    Ok(alone.into_iter().chain(row).chain(together).chain(ratios).collect())
}

fn named(name: &'static str) -> Figure {
    Figure::new(name, Unit::Seconds)
}

/// Makes that many pods at once, and takes their networks away again: how long each call took, and the pods,
/// whose namespaces are left.
fn added(
    node: &Node,
    name: &str,
    count: usize,
    other: Option<(&Path, &Value)>,
) -> Result<(Vec<Duration>, Vec<Pod>)> {
    let (times, pods) = made(node, name, count, other)?;
    delete(node, &pods, other)?;
    Ok((times, pods))
}

/// Makes that many pods at once: how long each call took, and the pods.
fn made(
    node: &Node,
    name: &str,
    count: usize,
    other: Option<(&Path, &Value)>,
) -> Result<(Vec<Duration>, Vec<Pod>)> {
    let named = |nth| Pod::planned(node, &format!("bench/{name}-{nth}"), &[("app", "bench")]);
    let mut pods = (0..count).map(named).collect::<Result<Vec<_>>>()?;
    let call = |pod: &mut Pod| -> Result<Duration> {
        let begun = Instant::now();
        match other {
            Some((plugin, config)) => cni::call_other(plugin, config, "ADD", pod)?,
            None => pod.add(node)?,
        }
        Ok(begun.elapsed())
    };
    let call = &call;
    let times = thread::scope(|scope| {
        let calls: Vec<_> = pods.iter_mut().map(|pod| scope.spawn(move || call(pod))).collect();
        let ended = calls.into_iter().map(|call| call.join().ok().context("a call panicked")?);
        ended.collect::<Result<Vec<_>>>()
    })?;
    Ok((times, pods))
}

/// Takes the networks of pods away again.
fn delete(node: &Node, pods: &[Pod], other: Option<(&Path, &Value)>) -> Result<()> {
    pods.iter().try_for_each(|pod| match other {
        Some((plugin, config)) => cni::call_other(plugin, config, "DEL", pod),
        None => cni::del(node, pod),
    })
}

/// Removes the namespaces of pods.
fn forget(node: &Node, pods: Vec<Pod>) -> Result<()> {
    pods.iter().try_for_each(|pod| pod.forget(node))
}
