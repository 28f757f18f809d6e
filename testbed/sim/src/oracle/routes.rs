//! Routes to other nodes: what has one keeps it as long as its node stays.

use std::collections::BTreeSet;

use ipnet::IpNet;
use volvox_actors_simulated::testing::KernelState;

use crate::model::other_nodes::NodePrefixes;

/// Other nodes, and the routes to them.
#[derive(Default)]
pub(crate) struct Routes {
    /// The prefix of each.
    pub(crate) nodes: NodePrefixes,
    /// Prefixes of nodes that stayed since the node was last at rest: there were routes to them.
    steady: BTreeSet<IpNet>,
}

impl Routes {
    /// A node has that prefix from now on, or is gone.
    pub(crate) fn becomes(&mut self, number: u8, prefix: Option<u8>) {
        if let Some(former) = self.nodes.becomes(number, prefix) {
            self.steady.retain(|net| !former.contains(net));
        }
    }

    /// Something happened to what routes lead through: they may go until they are made again.
    pub(crate) fn may_go(&mut self) {
        self.steady.clear();
    }

    /// At rest: what has a route keeps it as long as its node stays.
    pub(crate) fn rest(&mut self, state: &KernelState) {
        self.steady = state.routing.routes.keys().copied().collect();
    }

    /// A route that went, although its node stays.
    pub(crate) fn wrong(&self, state: &KernelState) -> Option<String> {
        let lost = self.steady.iter().find(|net| !state.routing.routes.contains_key(net));
        lost.map(|net| format!("the route to {net} went, and its node stays"))
    }
}
