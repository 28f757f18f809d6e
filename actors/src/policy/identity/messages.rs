//! Messages of the owner of identities, its answers and its errors.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use ipnet::IpNet;
use serde::Serialize;

use crate::{
    host::{Lane, Message, Outlet, Reply},
    model::{IdentityId, Labels},
    policy::identity::{Introduction, Numbering},
    ports::DiskError,
};

/// An identity with what stands behind it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Identity {
    /// Its number.
    pub id: IdentityId,
    /// Its labels.
    pub labels: Arc<Labels>,
    /// The prefix, for one that stands for a prefix.
    pub prefix: Option<IpNet>,
    /// How many endpoints of this node have it.
    pub references: u32,
}

/// Why there is no identity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    /// Every number is taken.
    #[error("all {0} identities are in use: fewer distinct label sets are needed (see --labels)")]
    Exhausted(usize),
    /// The number could not be stored; it is not used before it is.
    #[error("identity could not be stored: {0}")]
    NotStored(DiskError),
    /// The cluster did not give these labels a number.
    #[error("identity could not be allocated in the cluster: {0}")]
    NotAllocated(String),
}

/// What the owner of identities can be told.
pub enum IdentityMsg {
    /// The number of a set of identity labels; made and stored first if it is new. Takes a
    /// reference.
    Resolve {
        /// The labels, already filtered.
        labels: Labels,
        /// The number that this set had before a restart; taken if nothing speaks against it.
        before: Option<IdentityId>,
        /// Where the answer goes.
        reply: Reply<Result<Identity, IdentityError>>,
    },
    /// Give a reference back, once no address has the identity through it any more.
    Release(IdentityId),
    /// The numbers of exactly these prefixes; those not named any more are given back.
    Prefixes {
        /// The prefixes.
        desired: BTreeSet<IpNet>,
        /// Where the answer goes.
        reply: Reply<Result<BTreeMap<IpNet, IdentityId>, IdentityError>>,
    },
    /// Keep identities that addresses of other nodes have, under exactly these numbers, and names
    /// of ports. Answered with those that can be had, once they are stored; each counts as used
    /// until it is abandoned.
    Adopt {
        /// The identities, and the names.
        desired: Introduction,
        /// Where the answer goes.
        reply: Reply<Result<BTreeSet<IdentityId>, IdentityError>>,
    },
    /// These were adopted by an earlier run, as far as they are known.
    Inherit(BTreeSet<IdentityId>),
    /// No address of another node has these any more.
    Abandon(Vec<IdentityId>),
    /// Endpoints of the run before had these: they count as used, as far as they are known.
    Withhold(BTreeSet<IdentityId>),
    /// Each of those endpoints has said which identity it has, or is gone.
    ReleaseWithheld,
    /// The cluster hands out numbers of label sets, through this.
    AllocateBy(Outlet<Numbering>),
    /// A number in use stands for other labels in the cluster.
    Disputed(IdentityId),
    /// Tell there when no endpoint has an identity any more.
    Subscribe(Outlet<IdentityId>),
    /// Show one.
    Get {
        /// Its number.
        id: IdentityId,
        /// Where the answer goes.
        reply: Reply<Option<Identity>>,
    },
    /// Show all: reserved, well-known, in use and kept, by number.
    List(Reply<Vec<Identity>>),
}

impl Message for IdentityMsg {
    fn kind(&self) -> &'static str {
        match self {
            Self::Resolve { .. } => "Resolve",
            Self::Release(_) => "Release",
            Self::Prefixes { .. } => "Prefixes",
            Self::Adopt { .. } => "Adopt",
            Self::Inherit(_) => "Inherit",
            Self::Abandon(_) => "Abandon",
            Self::Withhold(_) => "Withhold",
            Self::ReleaseWithheld => "ReleaseWithheld",
            Self::AllocateBy(_) => "AllocateBy",
            Self::Disputed(_) => "Disputed",
            Self::Subscribe(_) => "Subscribe",
            Self::Get { .. } => "Get",
            Self::List(_) => "List",
        }
    }

    /// One lane for all: a reference is given back after it was taken.
    fn lane(&self) -> Lane {
        Lane::Request
    }
}
