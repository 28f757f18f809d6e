//! Answers that concern other nodes: what comes of own questions, timers and ports.

use std::collections::BTreeSet;

use super::messages::{NodePrefixes, UnknownIdentities};
use crate::{
    host::{AskError, Message},
    model::IdentityId,
    policy::identity::IdentityError,
    ports::KernelError,
};

/// What the owner of nodes hears of its own questions, timers and ports.
pub enum RemoteNodesAnswer {
    /// Policies are known: they can learn of identities.
    PoliciesReady(Result<(), AskError>),
    /// These identities are kept on disk, as far as they can be.
    Adopted(UnknownIdentities, Result<Result<BTreeSet<IdentityId>, IdentityError>, AskError>),
    /// Every policy knows them.
    Learned(BTreeSet<IdentityId>, Result<(), AskError>),
    /// The ipcache has given up those of these that go.
    Removed(NodePrefixes, Result<Result<(), KernelError>, AskError>),
    /// The ipcache has these, and has not those any more.
    Reported(NodePrefixes, Result<Result<(), KernelError>, AskError>),
    /// Time to tell it what it did not hear.
    Again,
    /// Time to look who has this node's name in the store.
    Contend,
}

impl Message for RemoteNodesAnswer {
    fn kind(&self) -> &'static str {
        match self {
            Self::PoliciesReady(_) => "PoliciesReady",
            Self::Adopted(..) => "Adopted",
            Self::Learned(..) => "Learned",
            Self::Removed(..) => "Removed",
            Self::Reported(..) => "Told",
            Self::Again => "Again",
            Self::Contend => "Contend",
        }
    }
}
