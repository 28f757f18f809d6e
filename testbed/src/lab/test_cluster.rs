//! Several nodes on one network, each with an agent of its own, and an etcd between them.

use std::net::{IpAddr, SocketAddr};

use anyhow::{Context, Result};

use super::{Binaries, Etcd, Netns, Node, Pod, Through, ip, netns, wait_for};

/// What is where on the nodes' network: etcd, by the last part of its address.
const ETCD: u8 = 254;
/// The port that it serves.
const ETCD_PORT: u16 = 2379;

/// Nodes that share an etcd, as [`Setup::start_nodes`](super::Setup::start_nodes) starts them.
pub struct TestCluster {
    /// The etcd.
    pub etcd: Etcd,
    /// The nodes, by their numbers from 1 on.
    pub members: Vec<Member>,
}

/// A node of a cluster, in a namespace of its own.
pub struct Member {
    /// The node of that number N is `nN` at 192.0.2.N, unless the network has IPv6 only, and
    /// 2001:db8::N; its pods are in 10.N.0.0/24 and fd00:0:0:N::/64.
    pub number: u8,
    /// Its namespace.
    pub netns: Netns,
    node: Node,
}

/// Which addresses there are on the nodes' network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Underlay {
    Both,
    Ipv6,
}

impl Underlay {
    /// The address with that last part.
    fn address(ipv6: bool, last: u8) -> Result<IpAddr> {
        let text = if ipv6 { format!("2001:db8::{last}") } else { format!("192.0.2.{last}") };
        text.parse().with_context(|| format!("{text} is no address"))
    }

    /// What `ip` is told after `addr add`, to have all of them at a device.
    fn all(self, last: u8) -> Result<Vec<String>> {
        let mut all = vec![format!("{}/64 nodad", Self::address(true, last)?)];
        if self == Self::Both {
            all.insert(0, format!("{}/24", Self::address(false, last)?));
        }
        Ok(all)
    }
}

impl TestCluster {
    /// As many nodes, without agents.
    pub(super) fn connect(count: u8, underlay: Underlay) -> Result<Self> {
        ip("link add cluster type bridge")?;
        for address in underlay.all(ETCD)? {
            ip(&format!("addr add {address} dev cluster"))?;
        }
        ip("link set cluster up")?;
        let members = (1..=count).map(|number| Member::connect(number, underlay));
        let members = members.collect::<Result<_>>()?;
        let address = Underlay::address(underlay == Underlay::Ipv6, ETCD)?;
        let etcd = Etcd::start_at("/run/cluster-etcd".as_ref(), address)?;
        Ok(Self { etcd, members })
    }

    /// The node of that number.
    pub fn member(&mut self, number: u8) -> &mut Member {
        &mut self.members[usize::from(number) - 1]
    }

    /// Waits until every agent knows all other nodes, and its programs run at its devices.
    pub fn wait_until_known(&mut self) -> Result<()> {
        let others = self.members.len() - 1;
        for member in &mut self.members {
            wait_for("nodes know each other", || {
                let text = member.run(|node| node.volvox("status"))?;
                let plural = if others == 1 { "" } else { "s" };
                let known = text.contains(&format!("and {others} other node{plural} known"));
                Ok(known && !text.contains("no programs yet"))
            })?;
        }
        Ok(())
    }
}

impl Member {
    /// Makes the node, without an agent.
    fn connect(number: u8, underlay: Underlay) -> Result<Self> {
        let name = format!("n{number}");
        let netns = Netns::create(&name)?;
        for words in [
            format!("link add {name} type veth peer name eth0 netns {name}"),
            format!("link set {name} master cluster up"),
            format!("-n {name} link set lo up"),
        ] {
            ip(&words)?;
        }
        netns.run(|| netns::is_up_for_long("eth0"))?;
        for address in underlay.all(number)? {
            ip(&format!("-n {name} addr add {address} dev eth0"))?;
        }
        ip(&format!("-n {name} link set eth0 up"))?;
        let mut node = Node::beside(Binaries::find()?, &name)?;
        let store = Underlay::address(underlay == Underlay::Ipv6, ETCD)?;
        let store = format!("etcd.address=http://{}", SocketAddr::new(store, ETCD_PORT));
        node.set_flag("kvstore", Some("etcd")).set_flag("kvstore-opt", Some(&store));
        node.set_flag("ipv4-range", Some(&format!("10.{number}.0.0/24")));
        node.set_flag("ipv6-range", Some(&format!("fd00:0:0:{number}::/64")));
        Ok(Self { number, netns, node })
    }

    /// Does something with the node, in its namespace.
    pub fn run<T: Send>(&mut self, body: impl FnOnce(&mut Node) -> Result<T> + Send) -> Result<T> {
        let Self { netns, node, .. } = self;
        netns.run(|| body(node))
    }

    /// Makes a pod on it.
    pub fn pod(&mut self, name: &str, labels: &[(&str, &str)]) -> Result<Pod> {
        self.run(|node| Pod::create(node, name, labels, Through::Cni))
    }

    /// Its address on the nodes' network.
    pub fn address(&self, ipv6: bool) -> Result<IpAddr> {
        Underlay::address(ipv6, self.number)
    }

    /// What `ip` says in its namespace.
    pub fn ip(&self, words: &str) -> Result<String> {
        self.netns.run(|| ip(words))
    }

    /// Ends its agent and removes all that agents left on it.
    pub fn uninstall(self) -> Result<()> {
        let Self { netns, node, .. } = self;
        netns.run(|| node.uninstall())
    }
}
