//! What the owner of identities says to whoever hands out numbers for the whole cluster.

use std::{collections::BTreeSet, sync::Arc};

use crate::{
    host::Reply,
    model::{IdentityId, Labels},
};

/// What this node needs of the cluster's numbers, or gives back.
pub enum Numbering {
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
    /// It does not use a number that it was given for these labels. It may use it for others.
    Declined(IdentityId, Arc<Labels>),
    /// Endpoints of this number, which is disputed, can have the one that they are to get.
    Movable(IdentityId),
    /// It uses these and no others; an answer to what it asked for before would meet nobody.
    OnlyUsed(BTreeSet<IdentityId>),
}

impl Numbering {
    /// Its name, for traces.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Allocate { .. } => "Allocate",
            Self::Used(..) => "Used",
            Self::Unused(_) => "Unused",
            Self::Declined(..) => "Declined",
            Self::Movable(_) => "Movable",
            Self::OnlyUsed(_) => "OnlyUsed",
        }
    }
}
