//! Who hears of which objects of the cluster.

/// Who hears of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Feed {
    /// The owner of the policy.
    Policies,
    /// The same, of what policies name: services and the addresses behind them.
    Services,
    /// The keeper of pods and namespaces; the owner of services hears of pods as well, which may want
    /// ports of the node.
    Workloads,
    /// Who keeps what this node says of itself: its own Node,
    Node,
    /// its CiliumNode, of which also the owner of the cluster's nodes hears if no store tells it: then
    /// of all nodes,
    CiliumNode,
    /// and the endpoints of all nodes, of which also the owner of the cluster's addresses hears if
    /// no store tells it.
    CiliumEndpoints,
    /// The owner of the cluster's identities, if no store tells it.
    CiliumIdentities,
    /// The owner of services, of Ingresses, which are frontends of services.
    Ingresses,
    /// The keeper of pods and namespaces, of pools that select pods, if addresses are of several.
    PodPools,
    /// The owner of the cluster's nodes, of all Nodes, where nobody defined CiliumNodes.
    Nodes,
}

impl Feed {
    /// Whether policies wait for it; for services only if one of them `names` some.
    pub fn gates_policies(self, names: bool) -> bool {
        matches!(self, Self::Policies | Self::Workloads) || (self == Self::Services && names)
    }

    /// That with which it is told, in one piece.
    pub(crate) fn told_with(self) -> Self {
        match self {
            Self::Services => Self::Policies,
            other => other,
        }
    }

    /// Whether it is not enough to know that nobody defined such objects.
    pub fn needs_definition(self) -> bool {
        self == Self::CiliumIdentities
    }

    /// What waits for it before its first list, in words.
    pub fn waiting(self) -> &'static str {
        match self {
            Self::Policies | Self::Workloads => {
                "restored endpoints keep what they have, and new pods wait"
            }
            Self::Services => {
                "policies that name services wait; if one did when the agent started, restored \
                 endpoints keep what they have, and new pods wait"
            }
            Self::CiliumIdentities => {
                "endpoints keep the identities that they have, and new sets of labels wait"
            }
            Self::Nodes => "other nodes are where they were",
            Self::PodPools => "new pods wait, of which the pool is not known",
            Self::CiliumNode => {
                "other nodes are where they were, and what this node says of itself waits for them"
            }
            Self::Node | Self::CiliumEndpoints => "what this node says of itself waits for them",
            Self::Ingresses => "what they led to in the life before stays, and new ones wait",
        }
    }
}
