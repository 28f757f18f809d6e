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
/// How many pods are made at once.
const AT_ONCE: usize = 20;

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
    let mut together = [named("cni.add_at_once"), named("cni.bridge_at_once")];
    let rounds = usize::from(options.rounds);
    let progress = Progress::new(options.json);
    let bar = progress.bar("making pods", 4 * rounds);
    for round in 0..rounds {
        // Who is first may find something warmer or colder.
        let order = if round % 2 == 0 { [0, 1] } else { [1, 0] };
        for whose in order {
            let other = (whose == 1).then_some((bridge, &others));
            for time in added(&node, &format!("alone-{round}"), 1, other)? {
                alone[whose].push_time(time);
            }
            bar.inc(1);
            for time in added(&node, &format!("many-{round}"), AT_ONCE, other)? {
                together[whose].push_time(time);
            }
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
    Ok(alone.into_iter().chain(together).chain(ratios).collect())
}

fn named(name: &'static str) -> Figure {
    Figure::new(name, Unit::Seconds)
}

/// Makes that many pods at once, and removes them; how long each call took.
fn added(
    node: &Node,
    name: &str,
    count: usize,
    other: Option<(&Path, &Value)>,
) -> Result<Vec<Duration>> {
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
    for pod in &pods {
        match other {
            Some((plugin, config)) => cni::call_other(plugin, config, "DEL", pod)?,
            None => cni::del(node, pod)?,
        }
        pod.forget(node)?;
    }
    Ok(times)
}
