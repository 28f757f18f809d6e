//! Answers that concern the cluster's addresses: what comes of own questions, timers and ports.

use std::collections::BTreeSet;

use ipnet::IpNet;

use super::messages::AddressMapping;
use crate::{
    host::{AskError, Message},
    model::IdentityId,
    policy::identity::{IdentityError, Introduction},
    ports::KernelError,
};

/// What the owner of addresses hears of its own questions, timers and ports.
pub enum AddressesAnswer {
    /// Identities are kept on disk from now on, as many of them as can be had, and names of ports.
    Adopted(Introduction, Result<Result<BTreeSet<IdentityId>, IdentityError>, AskError>),
    /// Every policy knows them.
    Learned(Introduction, Result<(), AskError>),
    /// Policies are known: identities can become known to them.
    PoliciesReady(Result<(), AskError>),
    /// These addresses are in the ipcache.
    Mapped(Vec<AddressMapping>, Result<Result<(), KernelError>, AskError>),
    /// These are out of it.
    Unmapped(Vec<IpNet>, Result<Result<(), KernelError>, AskError>),
    /// Time to look again at what could not go on.
    Again,
}

impl Message for AddressesAnswer {
    fn kind(&self) -> &'static str {
        match self {
            Self::Adopted(..) => "Adopted",
            Self::Learned(..) => "Learned",
            Self::PoliciesReady(_) => "PoliciesReady",
            Self::Mapped(..) => "Mapped",
            Self::Unmapped(..) => "Unmapped",
            Self::Again => "Again",
        }
    }
}
