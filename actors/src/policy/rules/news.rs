//! News of the owner of the policy, for whoever has the endpoints: what they are to enforce, and who
//! waits for it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::Touched;
use crate::{host::Reply, model::IdentityId};

/// What the owner of the policy says to whoever has the endpoints.
pub enum PolicyNews {
    /// The policy of endpoints with these labels changed: they look again. Answered when all who are
    /// awaited show at least that revision.
    PolicyChanged {
        /// The revision.
        revision: u64,
        /// Whom it concerns, and what they are to enforce.
        touched: Touched,
        /// Identities that are about to have addresses, for which it is waited.
        strangers: BTreeSet<IdentityId>,
        /// Who is awaited.
        awaited: AwaitedEndpoints,
        /// Where the answer goes.
        reply: Reply<Reached>,
    },
    /// The policy has a new revision, by which nobody enforces anything else.
    Revision(u64),
    /// Have what an earlier run left in the kernel know identities that are about to be mapped.
    Inherit {
        /// The identities.
        successors: Arc<Successors>,
        /// Where the answer goes.
        reply: Reply<InheritResult>,
    },
}

impl PolicyNews {
    /// Its name, for traces.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::PolicyChanged { .. } => "PolicyChanged",
            Self::Revision(_) => "Revision",
            Self::Inherit { .. } => "Inherit",
        }
    }
}

/// Which endpoints are to enforce a revision of the policy before it is said that they do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AwaitedEndpoints {
    /// Those that it concerns and that are programmed.
    Concerned,
    /// All that enforce any policy, also what an earlier run wrote; but none that was awaited in
    /// vain again and again while the kernel refused its builds.
    Able,
    /// All that enforce any policy.
    All,
    /// The same, however long it takes.
    Everyone,
}

/// How far those came who were awaited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reached {
    /// Everyone enforces it.
    Everyone,
    /// One that does not answer does not. For what is about to be mapped that opens nothing.
    Most,
}

/// Identities that are about to be mapped, each with that under which its packets come now.
pub type Successors = BTreeMap<IdentityId, IdentityId>;

/// Whether rows were written, or why not.
pub type InheritResult = Result<(), Arc<str>>;
