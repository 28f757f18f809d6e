//! Messages to the allocator: what the cluster says, and what this node needs or gives back.

use std::{collections::BTreeSet, sync::Arc};

use serde_json::Value;

use super::AllocatorView;
use crate::{
    cluster::{addresses::AddressesMsg, kvstore::Update},
    host::{Lane, Message, Ref, Reply},
    model::{IdentityId, Labels},
    policy::identity::IdentityMsg,
    ports::ObjectKey,
};

/// What the allocator can be told.
pub enum AllocatorMsg {
    /// What the store knows of identities.
    Update(Update),
    /// What the API server knows of them. The first holds all there are.
    Objects {
        /// The objects that are so now, or are gone.
        objects: Vec<(ObjectKey, Option<Value>)>,
        /// Whether there can be such objects.
        defined: bool,
    },
    /// The number of these labels in the cluster, chosen if they have none. It counts as used.
    Allocate {
        /// The labels.
        labels: Arc<Labels>,
        /// The number that they had before.
        before: Option<IdentityId>,
        /// Where the number goes.
        reply: Reply<IdentityId>,
    },
    /// This node uses a number from now on, or still.
    Used(IdentityId, Arc<Labels>),
    /// It does not any more.
    Unused(IdentityId),
    /// It uses these and no others; an answer to what it asked for before would meet nobody.
    OnlyUsed(BTreeSet<IdentityId>),
    /// Who is to hear of identities and of claims, and who numbers them on this node.
    Tell(Ref<AddressesMsg>, Ref<IdentityMsg>),
    /// Show how it stands.
    Show(Reply<AllocatorView>),
}

impl Message for AllocatorMsg {
    fn kind(&self) -> &'static str {
        match self {
            Self::Update(_) => "Update",
            Self::Objects { .. } => "Objects",
            Self::Allocate { .. } => "Allocate",
            Self::Used(..) => "Used",
            Self::Unused(_) => "Unused",
            Self::OnlyUsed(_) => "OnlyUsed",
            Self::Tell(..) => "Tell",
            Self::Show(_) => "Show",
        }
    }

    /// One lane for all: a number is given back after it was taken.
    fn lane(&self) -> Lane {
        Lane::Request
    }
}
