//! A pod: a network namespace with an endpoint of the agent in it.

use std::{
    net::IpAddr,
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use serde_json::json;
use volvox_actors::ports::Link;
use volvox_system::netlink::Socket;

use super::{Netns, Node, cni, direct};

/// Interface of every pod.
pub(super) const INTERFACE: &str = "eth0";

/// How a pod comes to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Through {
    /// The CNI plugin, as a container runtime does it.
    Cni,
    /// Netlink and the REST API, without a process in between.
    Rest,
}

/// A pod of the lab.
#[derive(Clone, Debug)]
pub struct Pod {
    /// Kubernetes namespace.
    pub namespace: String,
    /// Kubernetes name.
    pub name: String,
    /// Its UID in a cluster; empty without one.
    pub uid: String,
    /// The container's identifier, 64 hex digits.
    pub container_id: String,
    /// Where it runs.
    pub netns: Netns,
    /// Its addresses, IPv4 first.
    pub addresses: Vec<IpAddr>,
    /// How long the plugin, or the request that makes the endpoint, took.
    pub created_in: Duration,
}

impl Pod {
    /// Makes the pod `namespace/name`, with a manifest that tells its labels.
    pub fn create(
        node: &Node,
        name: &str,
        labels: &[(&str, &str)],
        through: Through,
    ) -> Result<Self> {
        let mut pod = Self::named(name)?;
        match through {
            Through::Cni => {
                pod.write_manifest(node, labels)?;
                pod.add(node)?;
            }
            Through::Rest => (pod.addresses, pod.created_in) = direct::add(node, &pod, labels)?,
        }
        Ok(pod)
    }

    /// Makes the pod `namespace/name` that a cluster knows by that UID.
    pub fn of_cluster(node: &Node, name: &str, uid: &str) -> Result<Self> {
        let mut pod = Self { uid: uid.into(), ..Self::named(name)? };
        pod.add(node)?;
        Ok(pod)
    }

    /// The pod `namespace/name` of which the agent knows from a manifest, before the plugin is called.
    pub fn planned(node: &Node, name: &str, labels: &[(&str, &str)]) -> Result<Self> {
        let pod = Self::named(name)?;
        pod.write_manifest(node, labels)?;
        Ok(pod)
    }

    /// The pod `namespace/name` that a cluster knows by that UID, before the plugin is called.
    pub fn planned_in_cluster(name: &str, uid: &str) -> Result<Self> {
        Ok(Self { uid: uid.into(), ..Self::named(name)? })
    }

    fn named(name: &str) -> Result<Self> {
        let (namespace, name) = name.split_once('/').context("a pod is called namespace/name")?;
        static NUMBER: AtomicU32 = AtomicU32::new(1);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        Ok(Self {
            namespace: namespace.into(),
            name: name.into(),
            uid: String::new(),
            container_id: format!("{number:064x}"),
            netns: Netns::create(&format!("{namespace}-{name}"))?,
            addresses: Vec::new(),
            created_in: Duration::ZERO,
        })
    }

    /// Calls the plugin for it.
    pub fn add(&mut self, node: &Node) -> Result<()> {
        let begun = Instant::now();
        self.addresses = cni::add(node, self)
            .with_context(|| format!("the end of the agent's log:\n{}", node.log_end()))?;
        self.created_in = begun.elapsed();
        Ok(())
    }

    /// The plugin that was called at that time has answered.
    pub fn was_added(&mut self, answer: &[u8], begun: Instant) -> Result<()> {
        self.addresses = cni::addresses(&serde_json::from_slice(answer)?)?;
        self.created_in = begun.elapsed();
        Ok(())
    }

    /// Its first IPv4 or IPv6 address.
    pub fn address(&self, ipv6: bool) -> Result<IpAddr> {
        let found = self.addresses.iter().copied().find(|address| address.is_ipv6() == ipv6);
        found.with_context(|| format!("pod {} has no such address", self.name))
    }

    /// Both sides of its interface: inside, and on the node.
    pub fn links(&self) -> Result<[Link; 2]> {
        let inside = self.netns.run(|| Ok(Socket::open()?.link_by_name(INTERFACE)?))?;
        let inside = inside.with_context(|| format!("pod {} has no interface", self.name))?;
        let host = Socket::open()?.link_by_index(inside.peer_ifindex)?;
        Ok([inside, host.with_context(|| format!("pod {} has no host side", self.name))?])
    }

    /// Removes it through the plugin, as a runtime does, and its manifest.
    pub fn delete(&self, node: &Node) -> Result<()> {
        cni::del(node, self)?;
        let _ = self.forget(node);
        Ok(())
    }

    /// Removes its manifest.
    pub fn forget(&self, node: &Node) -> Result<()> {
        node.remove_manifest(&self.manifest())
    }

    fn manifest(&self) -> String {
        format!("pod-{}-{}.yaml", self.namespace, self.name)
    }

    /// Gives it other labels.
    pub fn write_labels(&self, node: &Node, labels: &[(&str, &str)]) -> Result<()> {
        self.write_manifest(node, labels)
    }

    fn write_manifest(&self, node: &Node, labels: &[(&str, &str)]) -> Result<()> {
        let labels: serde_json::Map<_, _> =
            labels.iter().map(|(key, value)| (key.to_string(), json!(value))).collect();
        let manifest = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": { "namespace": self.namespace, "name": self.name, "labels": labels },
        });
        node.write_manifest(&self.manifest(), &manifest.to_string())
    }
}
