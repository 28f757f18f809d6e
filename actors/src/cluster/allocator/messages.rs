//! Messages to the allocator: what the cluster says, and what this node needs or gives back.

use serde_json::Value;

use super::AllocatorView;
use crate::{
    cluster::{addresses::AddressesMsg, kvstore::Update},
    host::{Lane, Message, Ref, Reply},
    policy::identity::{IdentityMsg, Numbering},
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
    /// From the owner of identities: what this node needs, or gives back.
    Numbering(Numbering),
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
