//! What the kernel has of another cluster.

use std::net::IpAddr;

use volvox_actors_simulated::model::IdentityScope;

use crate::{
    model::expected::remote_address,
    world::{
        node::Node,
        remote_cluster::{NODE_ADDRESS, pods},
    },
};

impl Node {
    /// What the kernel does not have of what it says, or has beside that.
    pub(crate) fn remote_cluster_lacks(&self) -> Option<String> {
        let cluster = self.remote_cluster.as_ref()?;
        let rows = pods().map(|number| (remote_address(number), cluster.identity_of(number)));
        let node: IpAddr = NODE_ADDRESS.parse().ok()?;
        let is_there = cluster.has_node();
        let row = self.mapped(node);
        if row.is_some_and(|id| id.scope() == IdentityScope::RemoteNode) != is_there {
            return Some(format!("its node {node} is there: {is_there}; the ipcache has {row:?}"));
        }
        rows.into_iter().find_map(|(address, expected)| {
            let row = self.mapped(address);
            (row != expected).then(|| {
                format!("{address} of another cluster is {expected:?}, the ipcache has {row:?}")
            })
        })
    }
}
