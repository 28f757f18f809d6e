//! Settings of the publisher, and the feeds that it needs for them.

use std::net::IpAddr;

use crate::{
    cluster::subscriber::Subscriber,
    endpoints::ipam::Pools,
    model::{Addresses, Feed},
    node::local_node::IpamMode,
};

/// What this node says of itself, and whether.
#[derive(Clone, Debug)]
pub struct PublishSettings {
    /// Its name in the cluster.
    pub node_name: String,
    /// The address by which other nodes reach it.
    pub address: IpAddr,
    /// The address that its pods route through.
    pub router: Addresses,
    /// Addresses of its health endpoint, as far as they are known; `None` if there is none.
    pub health: Option<Addresses>,
    /// Addresses of its pods.
    pub pools: Pools,
    /// Those of them that are to be what the cluster says.
    pub followed: Pools,
    /// Who chose them; `None` if the agent was told or chose itself.
    pub ipam: Option<IpamMode>,
    /// Which boot of the machine this is.
    pub boot_id: String,
    /// What is said in its Node.
    pub in_node: InNode,
    /// Whether its CiliumNode is made and kept true.
    pub cilium_node: bool,
    /// Whether CiliumEndpoints of its pods are made and kept true.
    pub cilium_endpoints: bool,
    /// What pauses are drawn by: another number on every node.
    pub seed: u64,
}

/// What is said in the Node of Kubernetes: nothing, at first.
#[derive(Clone, Debug, Default)]
pub struct InNode {
    /// Whether it is annotated, and its annotations are heeded.
    pub annotate: bool,
    /// Whether it says that its network is available.
    pub condition: bool,
    /// Key of the taint that goes when its network is available; none if it is left.
    pub taint: Option<String>,
}

impl PublishSettings {
    /// What is to be followed for that.
    pub fn feeds(&self) -> Vec<(Feed, Subscriber)> {
        let given_there = matches!(self.ipam, Some(IpamMode::ClusterPool | IpamMode::MultiPool));
        let cilium_node = self.cilium_node || given_there;
        let all = [
            (Feed::Node, true),
            (Feed::CiliumNode, cilium_node),
            (Feed::CiliumEndpoints, self.cilium_endpoints),
        ];
        all.into_iter()
            .filter(|(_, desired)| *desired)
            .map(|(feed, _)| (feed, Subscriber::Publisher))
            .collect()
    }
}
