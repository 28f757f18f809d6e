//! Who hears of objects of the cluster.

use crate::model::Feed;

/// Who hears of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subscriber {
    /// The owner of the policy.
    Policies,
    /// The keeper of pods and namespaces.
    Workloads,
    /// Who keeps what this node says of itself.
    Publisher,
    /// The owner of the cluster's identities.
    Allocator,
    /// The owner of the cluster's addresses.
    Addresses,
    /// The owner of the cluster's nodes.
    Nodes,
    /// The owner of services.
    Services,
    /// The keeper of pods and namespaces, of how this node is labelled.
    Host,
    /// The owner of this node's prefixes of pools.
    Prefixes,
    /// The keeper of pods and namespaces, of pools of addresses.
    Pools,
}

impl Subscriber {
    /// Who always hears of what is always followed.
    pub(crate) fn of(feed: Feed) -> Option<Self> {
        match feed {
            Feed::Policies => Some(Self::Policies),
            Feed::Workloads => Some(Self::Workloads),
            _ => None,
        }
    }
}
