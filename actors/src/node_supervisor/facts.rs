//! Who hears what the kernel says of the node as a whole.

use super::NodeSupervisor;
use crate::{
    cluster::{
        addresses::AddressesMsg, publish::PublisherMsg, reachability::ReachabilityMsg,
        remote_nodes::RemoteNodesMsg,
    },
    model::NodeFacts,
    node::{devices::DevicesMsg, local_node::NodeMsg, routes::RoutesMsg},
};

impl NodeSupervisor {
    /// Tells everybody whom it concerns that the kernel says something else of this node now.
    pub fn node_is(&self, facts: &NodeFacts) {
        let addresses = facts.addresses;
        let mut reported = vec![
            self.node.tell(NodeMsg::Facts(facts.clone())).is_ok(),
            self.devices.tell(DevicesMsg::NodeAddresses(addresses)).is_ok(),
            self.routes.tell(RoutesMsg::Facts(facts.clone())).is_ok(),
        ];
        let nodes = self.nodes.iter();
        reported
            .extend(nodes.map(|nodes| nodes.tell(RemoteNodesMsg::OwnAddresses(addresses)).is_ok()));
        let probing = self.reachability.iter();
        reported
            .extend(probing.map(|it| it.tell(ReachabilityMsg::OwnAddresses(addresses)).is_ok()));
        if let Some(address) = addresses.iter().next() {
            let publisher = self.publisher.iter();
            reported.extend(publisher.map(|it| it.tell(PublisherMsg::Address(address)).is_ok()));
            let sharing = self.kvstore.iter().map(|it| &it.addresses);
            let sharing = sharing.chain(self.crd.iter().map(|it| &it.addresses));
            reported.extend(sharing.map(|it| it.tell(AddressesMsg::OwnAddress(address)).is_ok()));
        }
        if reported.contains(&false) {
            tracing::error!("not everybody heard that this node is another; restart the agent");
        }
    }
}
