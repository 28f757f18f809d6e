//! Answers that concern an endpoint: what comes of own questions, timers and ports.

use std::sync::Arc;

use ipnet::IpNet;

use super::reference::IdentityReference;
use crate::{
    endpoints::build_queue::Permit,
    host::{AskError, Message, Reply},
    policy::{
        ipcache::IpcacheEntry,
        rules::{EndpointPolicy, InheritResult, Successors},
    },
    ports::{DiskError, KernelDone, KernelError, KernelOp},
};

/// What an endpoint hears of its own questions, timers and ports.
pub enum EndpointAnswer {
    /// The policy of an earlier run, which is to know more identities, was read.
    Bequest {
        /// Its slot.
        slot: u32,
        /// Who is to be known.
        successors: Arc<Successors>,
        /// Where the answer goes.
        reply: Reply<InheritResult>,
        /// What the kernel has.
        answer: Result<KernelDone, AskError>,
    },
    /// The policy of an earlier run was written.
    Inherited {
        /// The steps that were asked for.
        submitted: Vec<KernelOp>,
        /// Where the answer goes.
        reply: Reply<InheritResult>,
        /// Whether it is in force.
        answer: Result<KernelDone, AskError>,
    },
    /// The identity of its labels, or why there is none.
    Identified(Result<IdentityReference, String>),
    /// Everyone's policy knows that identity.
    Learned(Result<u64, AskError>),
    /// The state file is written, by the write of that number.
    Saved(u64, Result<Result<(), DiskError>, AskError>),
    /// The policy it is to have.
    Resolved(Result<Arc<EndpointPolicy>, AskError>),
    /// The same for one whose policy the kernel holds: none while nobody knows another.
    ResolvedOrRetained(Result<Option<Arc<EndpointPolicy>>, AskError>),
    /// Policies are known, or nobody answers any more.
    PoliciesKnown(Result<(), AskError>),
    /// It may build.
    Permitted(Result<Permit, AskError>),
    /// What the kernel has for it.
    Read(Result<KernelDone, AskError>),
    /// The new generation is built aside.
    Built(Result<KernelDone, AskError>),
    /// The new generation serves.
    Flipped(Result<KernelDone, AskError>),
    /// Its addresses have its identity.
    Mapped(Vec<(IpNet, IpcacheEntry)>, Result<Result<(), KernelError>, AskError>),
    /// Have links made in place of its filters.
    SettleNow,
    /// Its filters are links now.
    Settled(Result<KernelDone, AskError>),
    /// Try a failed build again.
    Retry,
    /// Have its interface looked at again.
    LookAgain,
    /// Something of it is gone from the kernel.
    TornDown(Result<KernelDone, AskError>),
    /// Its addresses are out of the ipcache.
    Unmapped(Result<Result<(), KernelError>, AskError>),
    /// Its state directory is gone.
    Forgotten(Result<Result<(), DiskError>, AskError>),
}

impl Message for EndpointAnswer {
    fn kind(&self) -> &'static str {
        match self {
            Self::Bequest { .. } => "Bequest",
            Self::Inherited { .. } => "Inherited",
            Self::Identified(_) => "Identified",
            Self::Learned(_) => "Learned",
            Self::Saved(..) => "Saved",
            Self::Resolved(_) => "Resolved",
            Self::ResolvedOrRetained(_) => "ResolvedOrKept",
            Self::PoliciesKnown(_) => "PoliciesKnown",
            Self::Permitted(_) => "Permitted",
            Self::Read(_) => "Read",
            Self::Built(_) => "Built",
            Self::Flipped(_) => "Flipped",
            Self::Mapped(..) => "Mapped",
            Self::SettleNow => "SettleNow",
            Self::Settled(_) => "Settled",
            Self::Retry => "Retry",
            Self::LookAgain => "LookAgain",
            Self::TornDown(_) => "TornDown",
            Self::Unmapped(_) => "Unmapped",
            Self::Forgotten(_) => "Forgotten",
        }
    }
}
