//! What the owner of the ways to other nodes hears of them.

use super::{
    NodeEntry, RemoteNodes,
    actor::{RemoteNodesState, Unheard},
};
use crate::{
    model::NodeKey,
    node::routes::{Neighbour, RoutesMsg},
};

impl Unheard {
    /// Something new is known of a node.
    pub(super) fn note(&mut self, key: &NodeKey) {
        self.nodes.insert(key.clone());
    }
}

impl RemoteNodes {
    /// Says what is new. What is refused is said again with the next.
    pub(super) fn tell_routes(&mut self) {
        let RemoteNodesState { reported, unheard, .. } = &mut *self.state;
        let all = reported.is_settled();
        if unheard.nodes.is_empty() && all == unheard.told_all {
            return;
        }
        let node =
            |key: &NodeKey| (key.clone(), reported.nodes().get(key).map(NodeEntry::neighbour));
        let changed = unheard.nodes.iter().map(node).collect();
        match self.peers.routes.tell(RoutesMsg::Nodes { changed, all }) {
            Ok(()) => *unheard = Unheard { told_all: all, ..Unheard::default() },
            Err(refused) => tracing::warn!(%refused, "ways to other nodes stay as they are"),
        }
    }
}

impl NodeEntry {
    /// By which it is reached: of each family its first internal address, or the first that is its
    /// own.
    pub(super) fn neighbour(&self) -> Neighbour {
        let of = |kind: &'static str| self.addresses.iter().filter(move |it| it.kind == kind);
        let addresses = of("InternalIP").chain(of("ExternalIP")).map(|it| it.ip).collect();
        Neighbour { addresses, pools: self.pools, more: self.more_prefixes.clone() }
    }
}
