//! A claim of a number: what is known before it, how the cluster stands to it, and how it went.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use super::Entry;
use crate::model::{IdentityId, Labels};

/// What is known of a set of labels that wants a number.
#[derive(Debug, Default)]
pub(super) struct Wish {
    /// The number that it has on this node, in use: no other will do.
    pub(super) held: Option<IdentityId>,
    /// The cluster had that one for this node in this life.
    pub(super) confirmed: bool,
    /// The number that it had before.
    pub(super) before: Option<IdentityId>,
    /// The number under which other nodes use it.
    pub(super) peers: Option<IdentityId>,
    /// Nodes use it under a number that is none of the cluster's.
    pub(super) strays: bool,
    /// Numbers that turned out to be taken.
    pub(super) taken: BTreeSet<IdentityId>,
}

/// A number that is in use here stands for something else in the cluster.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Disputed(pub(super) IdentityId);

/// A number for a set of labels, to be tried next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) labels: Arc<Labels>,
    pub(crate) id: IdentityId,
    pub(crate) standing: Standing,
}

/// How the cluster stands to a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It has these labels there.
    Known,
    /// The same, but it goes soon if nobody says that it uses it.
    Marked,
    /// It does not, and some node uses it for these labels all the same.
    Used,
    /// Nobody has it, and nodes use the labels under a number that the cluster had when its own was
    /// another one.
    Renumbered,
    /// Nobody has it, as far as is known.
    New,
}

/// How a claim stands once it was begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// There is nothing to do.
    Had,
    /// `AllocatorAnswer::Claimed` says how it went.
    UnderWay,
}

/// Who was there first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// Nodes use the labels. More may be on its way.
    Users {
        /// Under that number.
        number: Option<IdentityId>,
        /// Under one that is none of the cluster's.
        strays: bool,
    },
    /// What the number stands for.
    Entry(IdentityId, Entry),
}

/// Why a claim went neither way.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{cause}")]
pub struct ClaimError {
    /// The words of who refused, with a remedy.
    pub cause: String,
    /// How long to leave it alone.
    pub pause: Duration,
}

impl ClaimError {
    /// The pause where nothing speaks for another one.
    pub(super) const PAUSE: Duration = Duration::from_secs(2);
}
