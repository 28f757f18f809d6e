//! Messages to the allocator: what the cluster says, and what this node needs or gives back.

use std::collections::BTreeSet;

use serde::Serialize;

use super::Renewed;
use crate::{
    cluster::kvstore::Update,
    host::{Lane, Message, Outlet, Ref, Reply},
    model::{ApiObject, IdentityId},
    policy::identity::{IdentityMsg, Numbering},
    ports::ObjectKey,
};

/// What the allocator says to the owner of the cluster's addresses.
pub enum AllocatorNews {
    /// What this cluster says of identities; none are gone.
    Identities(Vec<Renewed>),
    /// The cluster has this identity for this node: its endpoints' addresses may be announced.
    Claimed(IdentityId),
    /// This identity stands for other labels in the cluster: endpoints that have it are to get
    /// another one.
    Disputed(IdentityId),
}

impl AllocatorNews {
    /// Its name, for traces.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Identities(_) => "Identities",
            Self::Claimed(_) => "Claimed",
            Self::Disputed(_) => "Disputed",
        }
    }
}

/// What the allocator can be told.
pub enum AllocatorMsg {
    /// What the store knows of identities.
    Update(Update),
    /// What the API server knows of them. The first holds all there are.
    Objects {
        /// The objects that are so now, or are gone.
        objects: Vec<(ObjectKey, Option<ApiObject>)>,
        /// Whether there can be such objects.
        defined: bool,
    },
    /// From the owner of identities: what this node needs, or gives back.
    Numbering(Numbering),
    /// Who is to hear of identities and of claims, and who numbers them on this node.
    Tell(Outlet<AllocatorNews>, Ref<IdentityMsg>),
    /// Show how it stands.
    Show(Reply<AllocatorView>),
}

impl Message for AllocatorMsg {
    fn kind(&self) -> &'static str {
        match self {
            Self::Update(_) => "Update",
            Self::Objects { .. } => "Objects",
            Self::Numbering(it) => it.kind(),
            Self::Tell(..) => "Tell",
            Self::Show(_) => "Show",
        }
    }

    /// One lane for all: a number is given back after it was taken.
    fn lane(&self) -> Lane {
        Lane::Request
    }
}

/// What the allocator shows of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AllocatorView {
    /// Identities that the cluster knows.
    pub known: usize,
    /// Whether all of them were listed once.
    pub listed: bool,
    /// Numbers that this node uses.
    pub used: usize,
    /// Those of them that it claimed.
    pub claimed: usize,
    /// Those that stand for something else in the cluster.
    pub disputed: BTreeSet<IdentityId>,
    /// Label sets that wait for a number.
    pub waiting: usize,
}
