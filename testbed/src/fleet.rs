//! A node full of pods with policies: what demo and benches work on.

use std::{
    fs,
    net::SocketAddr,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::{
    lab::{Binaries, Node, Pod, Through},
    progress::Progress,
    traffic::{Kind, Plan, Stream},
};

/// Namespace of all pods.
pub const NAMESPACE: &str = "fleet";

/// Apps that the pods are shared out to; each has one policy.
const APPS: usize = 10;

/// The port that the policies allow.
pub const PORT: u16 = 5000;

/// Pods that are made at a time.
const PARALLEL: usize = 4;

/// A node with pods. Pod number *i* is of app *i* mod 10, and lets in its own app and the one
/// before it, at port 5000 and for ping.
pub struct Fleet {
    /// The node; its agent runs.
    pub node: Node,
    /// The pods by number.
    pub pods: Vec<Pod>,
}

impl Fleet {
    /// Starts an agent and makes `count` pods. When this returns, all are ready, and their programs
    /// run by pinned links: nothing is left that the agent does in the background.
    pub fn launch(count: usize, through: Through, progress: &Progress) -> Result<Self> {
        Self::launch_on(Node::new(Binaries::find()?)?, count, through, progress)
    }

    /// The same on a node that has no agent yet.
    pub fn launch_on(
        mut node: Node,
        count: usize,
        through: Through,
        progress: &Progress,
    ) -> Result<Self> {
        ensure!(count >= 2 * Kind::ALL.len(), "the streams need eight endpoints");
        for app in 0..APPS {
            node.write_manifest(&policy_file(app), &policy(app))?;
        }
        node.start_agent()?;
        let pod = |number| (format!("{NAMESPACE}/pod-{number}"), format!("app-{}", number % APPS));
        Self::populate(node, count, through, progress, pod)
    }

    /// Makes `count` pods, each of the name and the app that `pod` says, on a node whose agent runs.
    pub fn populate(
        mut node: Node,
        count: usize,
        through: Through,
        progress: &Progress,
        pod: impl Fn(usize) -> (String, String) + Sync,
    ) -> Result<Self> {
        let bar = progress.bar("making pods", count);
        let (next, shared) = (AtomicUsize::new(0), &node);
        let make = || -> Result<Vec<(usize, Pod)>> {
            let mut made = Vec::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= count {
                    return Ok(made);
                }
                let (name, app) = pod(number);
                made.push((number, Pod::create(shared, &name, &[("app", &app)], through)?));
                bar.inc(1);
            }
        };
        let mut pods: Vec<_> = thread::scope(|scope| {
            let makers: Vec<_> = (0..PARALLEL).map(|_| scope.spawn(make)).collect();
            let joined = makers.into_iter().map(|maker| maker.join().expect("makers return"));
            joined.collect::<Result<Vec<_>>>()
        })?
        .into_iter()
        .flatten()
        .collect();
        pods.sort_by_key(|(number, _)| *number);
        let pods = pods.into_iter().map(|(_, pod)| pod).collect();
        bar.finish();
        node.wait_for_ready(count)?;
        let mut fleet = Self { node, pods };
        wait_for_links(&mut fleet.node, fleet.pods.len(), *progress)?;
        Ok(fleet)
    }

    /// Starts the four kinds of stream over IPv4, and, when there are pods enough, over IPv6: each
    /// between two pods of its own.
    pub fn all_streams(&self) -> Result<Vec<Stream>> {
        let mut streams = self.streams(0, false)?;
        if self.node.has_ipv6() && self.pods.len() >= 2 * APPS {
            streams.extend(self.streams(APPS, true)?);
        }
        Ok(streams)
    }

    /// Starts the four kinds of stream between pods from number `first` on.
    fn streams(&self, first: usize, ipv6: bool) -> Result<Vec<Stream>> {
        let pairs = Kind::ALL.into_iter().enumerate();
        pairs
            .map(|(index, kind)| {
                let rate = match kind {
                    Kind::Udp | Kind::Tcp => 1000,
                    Kind::Ping => 500,
                    Kind::Connect => 200,
                };
                let from = first + 2 * index;
                self.stream(kind, from, from + 1, ipv6, rate)
            })
            .collect()
    }

    /// Starts one stream between two pods.
    pub fn stream(
        &self,
        kind: Kind,
        from: usize,
        to: usize,
        ipv6: bool,
        rate: u32,
    ) -> Result<Stream> {
        Stream::start(Plan {
            kind,
            from: self.pods[from].netns.clone(),
            to: self.pods[to].netns.clone(),
            target: SocketAddr::new(self.pods[to].address(ipv6)?, PORT),
            rate,
        })
    }
}

/// Waits until the two programs of so many endpoints are attached by pinned links, where there are such.
pub fn wait_for_links(node: &mut Node, endpoints: usize, progress: Progress) -> Result<()> {
    let health: Value = node.rest().get("/healthz")?;
    if health["attach-mode"] != "tcx" {
        return Ok(());
    }
    let expected = 2 * endpoints;
    let bar = progress.bar("attaching links", expected);
    node.wait("not all links are attached", |node| {
        let there = count_links(node);
        bar.set_position(there as u64);
        Ok(there >= expected)
    })?;
    bar.finish();
    Ok(())
}

/// Links that are pinned for endpoints.
fn count_links(node: &Node) -> usize {
    let Ok(endpoints) = fs::read_dir(node.bpf_root().join("cilium/endpoints")) else { return 0 };
    endpoints
        .flatten()
        .filter_map(|endpoint| fs::read_dir(endpoint.path().join("links")).ok())
        .map(Iterator::count)
        .sum()
}

fn policy_file(app: usize) -> String {
    format!("policy-{app}.yaml")
}

/// A CiliumNetworkPolicy; JSON is YAML too.
fn policy(app: usize) -> String {
    let before = (app + APPS - 1) % APPS;
    let name = |app: usize| json!({ "matchLabels": { "app": format!("app-{app}") } });
    let ports = json!([{ "ports": [
        { "port": PORT.to_string(), "protocol": "TCP" },
        { "port": PORT.to_string(), "protocol": "UDP" },
    ] }]);
    let echo = json!([{ "fields": [
        { "family": "IPv4", "type": 8 },
        { "family": "IPv6", "type": 128 },
    ] }]);
    let peers = [name(before), name(app)];
    let namespace = json!({ "matchLabels": { "k8s:io.kubernetes.pod.namespace": NAMESPACE } });
    json!({
        "apiVersion": "cilium.io/v2",
        "kind": "CiliumNetworkPolicy",
        "metadata": { "namespace": NAMESPACE, "name": format!("app-{app}") },
        "spec": {
            "endpointSelector": name(app),
            "ingress": [
                { "fromEndpoints": peers, "toPorts": ports },
                { "fromEndpoints": peers, "icmps": echo },
            ],
            "egress": [
                { "toEndpoints": [namespace] },
                { "toCIDRSet": [{ "cidr": "172.16.0.0/12", "except": ["172.20.0.0/16"] }] },
            ],
        },
    })
    .to_string()
}
