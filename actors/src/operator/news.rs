//! What the follower of the cluster says to those who work.

use crate::{
    host::{Lane, Message, Reply},
    model::ApiObject,
    ports::ObjectKey,
};

/// Objects that an operator follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
pub(super) enum FollowedKind {
    /// Pods that have not ended.
    Pods,
    /// CiliumEndpoints.
    Endpoints,
    /// CiliumIdentities.
    Identities,
    /// CiliumNodes.
    CiliumNodes,
    /// Nodes.
    Nodes,
    /// Pods of agents, which are followed apart from others: of them more is read.
    AgentPods,
    /// CiliumPodIPPools, where prefixes come out of these.
    PodPools,
}

/// Whether all objects of a kind are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub(super) enum KindStanding {
    /// Not yet, or the server fails.
    #[default]
    Unknown,
    /// All that there are were told, and what happens is told.
    Followed,
    /// Nobody defined such objects.
    Undefined,
}

/// Something that the follower says.
#[derive(Clone, Debug)]
pub(super) enum ObjectNews {
    /// These are so now, or are gone.
    Changed(FollowedKind, Vec<(ObjectKey, Option<ApiObject>)>),
    /// Whether all of them are known.
    Standing(FollowedKind, KindStanding),
}

/// What those who work can be told; each shows a view of its own.
pub(super) enum WorkerMsg<View: 'static> {
    /// From the cluster.
    News(ObjectNews),
    /// Show what there is, and what was done.
    Show(Reply<View>),
}

impl<View: 'static> Message for WorkerMsg<View> {
    fn kind(&self) -> &'static str {
        match self {
            Self::News(_) => "News",
            Self::Show(_) => "Show",
        }
    }

    fn lane(&self) -> Lane {
        match self {
            Self::News(_) => Lane::Control,
            Self::Show(_) => Lane::Request,
        }
    }
}
