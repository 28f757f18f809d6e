//! Answers that concern the policy: what comes of own questions, timers and ports.

use std::collections::BTreeMap;

use ipnet::IpNet;

use crate::{
    host::{AskError, Message, Reply},
    model::IdentityId,
    policy::{
        identity::IdentityError,
        rules::{InheritResult, Reached},
    },
    ports::KernelError,
};

/// What the owner of the policy hears of its own questions, timers and ports.
pub enum PolicyAnswer {
    /// The cluster's policies are all on their way, or are asked for again.
    Synced(Result<(), AskError>),

    /// The numbers of the prefixes that rules name.
    Numbered(Result<Result<BTreeMap<IpNet, IdentityId>, IdentityError>, AskError>),
    /// Every endpoint's policy, still by the old rules, knows the new prefixes.
    Prepared(Result<Reached, AskError>),
    /// What an earlier run left in the kernel knows the new prefixes, or why not.
    Bequeathed(Result<InheritResult, AskError>),
    /// The new prefixes are in the ipcache, before the new rules are in force.
    Premapped(Result<Result<(), KernelError>, AskError>),
    /// Every endpoint enforces the rules of that revision.
    Enforced {
        /// The revision.
        revision: u64,
        /// The endpoints' answer.
        answer: Result<Reached, AskError>,
    },
    /// The new prefixes of the change under way are in the ipcache.
    Mapped(Result<Result<(), KernelError>, AskError>),
    /// Its stale prefixes are out of the ipcache.
    Unmapped(Result<Result<(), KernelError>, AskError>),
    /// Prefixes that no rule names have given their numbers back.
    Returned(Result<Result<BTreeMap<IpNet, IdentityId>, IdentityError>, AskError>),
    /// Every endpoint knows the identities of that question.
    Known {
        /// The revision that knows them.
        revision: u64,
        /// The endpoints' answer.
        answer: Result<Reached, AskError>,
    },
    /// Every endpoint knows identities of other nodes.
    Acquainted {
        /// The revision that knows them.
        revision: u64,
        /// Who asked for that.
        reply: Reply<()>,
        /// The endpoints' answer.
        answer: Result<Reached, AskError>,
    },
    /// Endpoints have heard of a change that nobody waits for.
    Heard(Result<Reached, AskError>),
    /// Take up a change that could not be finished.
    Retry,
}

impl Message for PolicyAnswer {
    fn kind(&self) -> &'static str {
        match self {
            Self::Synced(_) => "Synced",
            Self::Numbered(_) => "Numbered",
            Self::Prepared(_) => "Prepared",
            Self::Bequeathed(_) => "Bequeathed",
            Self::Premapped(_) => "Premapped",
            Self::Enforced { .. } => "Enforced",
            Self::Mapped(_) => "Mapped",
            Self::Unmapped(_) => "Unmapped",
            Self::Returned(_) => "Returned",
            Self::Acquainted { .. } => "Acquainted",
            Self::Known { .. } => "Known",
            Self::Heard(_) => "Heard",
            Self::Retry => "Retry",
        }
    }
}
