//! What the session can be told, and what it shows of itself.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::{
    cluster::sources::Hearing,
    host::{Lane, Message, Reply},
    ports::{KvError, LeaseId, Pair, StoreHeader, Transaction},
};

/// What the session can be told.
pub enum SessionMsg {
    /// These keys have these values for as long as this node lives; those without one go.
    Announce(BTreeMap<String, Option<Vec<u8>>>),
    /// Commit this and, in the same transaction, announce what goes with it.
    Claim {
        /// What must hold, and what is written without a lease.
        transaction: Transaction,
        /// What is announced if it held.
        leased: Vec<Pair>,
        /// Whether it held.
        reply: Reply<Result<bool, KvError>>,
    },
    /// Somebody else removed a key; announced ones come back.
    Removed(String),
    /// Show how it stands.
    Show(Reply<SessionView>),
}

impl Message for SessionMsg {
    fn kind(&self) -> &'static str {
        match self {
            Self::Announce(_) => "Announce",
            Self::Claim { .. } => "Claim",
            Self::Removed(_) => "Removed",
            Self::Show(_) => "Show",
        }
    }

    /// One lane for all: what is announced last counts.
    fn lane(&self) -> Lane {
        Lane::Request
    }
}

/// A time without the store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unreachable {
    /// Since when, nanoseconds since 1970, UTC.
    pub since: u64,
    /// The last error.
    pub error: String,
}

/// How this node stands with the store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SessionView {
    /// The lease that it has.
    pub lease: Option<LeaseId>,
    /// How many leases it was granted.
    pub leases: u64,
    /// Keys that it wants to be there.
    pub announced: usize,
    /// Those of them that are written under the lease.
    pub written: usize,
    /// How often in a row the store did not show a majority.
    pub quorum_errors: u32,
    /// Since when the store does not answer.
    pub unreachable: Option<Unreachable>,
    /// The furthest that the store said of itself.
    pub header: Option<StoreHeader>,
    /// How it was heard.
    pub hearing: Hearing,
}
