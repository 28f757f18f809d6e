//! What a test finds when it begins: one node or several, with a store, manifests and pods.

use anyhow::{Context, Result, ensure};

use super::{Binaries, Etcd, Node, Pod, TestCluster, Through, test_cluster::Underlay};

/// What is to be started. Nothing is there before [`Setup::start`] or [`Setup::start_nodes`].
#[derive(Debug)]
pub struct Setup<'a> {
    flags: Vec<(&'a str, &'a str)>,
    manifests: Vec<(&'a str, &'a str)>,
    pods: Vec<Planned<'a>>,
    through: Through,
    etcd: Option<&'a Etcd>,
    ipv4_only: bool,
    underlay: Underlay,
}

/// A pod, and the number of the node that it is to be on.
#[derive(Debug)]
struct Planned<'a> {
    node: u8,
    name: &'a str,
    labels: &'a [(&'a str, &'a str)],
}

impl<'a> Setup<'a> {
    /// Nothing but an agent.
    pub fn new() -> Self {
        Self {
            flags: Vec::new(),
            manifests: Vec::new(),
            pods: Vec::new(),
            through: Through::Rest,
            etcd: None,
            ipv4_only: false,
            underlay: Underlay::Both,
        }
    }

    /// Starts agents with this value of a flag.
    pub fn flag(mut self, name: &'a str, value: &'a str) -> Self {
        self.flags.push((name, value));
        self
    }

    /// The same with several flags.
    pub fn flags(mut self, flags: &[(&'a str, &'a str)]) -> Self {
        self.flags.extend(flags);
        self
    }

    /// Puts a manifest where every agent finds it at its start.
    pub fn manifest(mut self, file: &'a str, text: &'a str) -> Self {
        self.manifests.push((file, text));
        self
    }

    /// Makes the pod `namespace/name` on the first node.
    pub fn pod(self, name: &'a str, labels: &'a [(&'a str, &'a str)]) -> Self {
        self.pod_on(1, name, labels)
    }

    /// Makes it on the node of that number.
    pub fn pod_on(mut self, node: u8, name: &'a str, labels: &'a [(&'a str, &'a str)]) -> Self {
        self.pods.push(Planned { node, name, labels });
        self
    }

    /// Makes pods through the CNI plugin, as those of several nodes always are.
    pub fn with_plugin(mut self) -> Self {
        self.through = Through::Cni;
        self
    }

    /// Has one node share that etcd. Several have one of their own.
    pub fn shares(mut self, etcd: &'a Etcd) -> Self {
        self.etcd = Some(etcd);
        self
    }

    /// Gives pods no IPv6 addresses.
    pub fn ipv4_only(mut self) -> Self {
        self.ipv4_only = true;
        self
    }

    /// Has only IPv6 on the network between several nodes; their pods have both families.
    pub fn nodes_on_ipv6(mut self) -> Self {
        self.underlay = Underlay::Ipv6;
        self
    }

    /// Starts the lab's own node. Its pods, in the order in which they were named, are ready.
    pub fn start<const N: usize>(self) -> Result<(Node, [Pod; N])> {
        ensure!(self.pods.iter().all(|pod| pod.node == 1), "there is only one node");
        let mut node = Node::new(Binaries::find()?)?;
        self.start_agent(&mut node)?;
        let make = |pod: &Planned| Pod::create(&node, pod.name, pod.labels, self.through);
        let pods = self.make(make)?;
        if N > 0 {
            node.wait_for_ready(N)?;
        }
        Ok((node, pods))
    }

    /// Starts as many nodes, which know each other when this returns.
    pub fn start_nodes<const N: usize>(self, count: u8) -> Result<(TestCluster, [Pod; N])> {
        ensure!(self.etcd.is_none(), "several nodes have an etcd of their own");
        let mut cluster = TestCluster::connect(count, self.underlay)?;
        for member in &mut cluster.members {
            member.run(|node| self.start_agent(node))?;
        }
        cluster.wait_until_known()?;
        let pods = self.make(|pod| cluster.member(pod.node).pod(pod.name, pod.labels))?;
        Ok((cluster, pods))
    }

    fn start_agent(&self, node: &mut Node) -> Result<()> {
        if let Some(etcd) = self.etcd {
            etcd.share_with(node)?;
        }
        for (name, value) in &self.flags {
            node.set_flag(name, Some(value));
        }
        if self.ipv4_only {
            node.ipv4_only();
        }
        for (file, text) in &self.manifests {
            node.write_manifest(file, text)?;
        }
        node.start_agent()
    }

    fn make<const N: usize>(
        &self,
        make: impl FnMut(&Planned<'_>) -> Result<Pod>,
    ) -> Result<[Pod; N]> {
        let pods = self.pods.iter().map(make).collect::<Result<Vec<_>>>()?;
        pods.try_into().ok().with_context(|| format!("{} pods, not {N}", self.pods.len()))
    }
}

impl Default for Setup<'_> {
    fn default() -> Self {
        Self::new()
    }
}
