//! Answers that concern restoring: what comes of own questions, timers and ports.

use std::{collections::BTreeMap, net::IpAddr, sync::Arc};

use super::messages::MappingSource;
use crate::{
    endpoints::{endpoint::IdentityReference, ipam::IpamError},
    host::{AskError, Message},
    model::{EndpointId, NamedPorts},
    ports::{DiskError, KernelDone},
};

/// What the restore supervisor hears of its own questions, timers and ports.
pub enum RestoreAnswer {
    /// Addresses are reserved, or why not.
    Reserved {
        /// Which, and for whom.
        desired: Vec<(EndpointId, IpAddr)>,
        /// IPAM's answers, in the same order.
        answer: Result<Vec<Result<String, IpamError>>, AskError>,
    },
    /// What manifests say of ports that no record names.
    Described(Result<BTreeMap<EndpointId, NamedPorts>, AskError>),
    /// A reference to an identity that rows of an endpoint still carry, or why there is none.
    Carried(Result<IdentityReference, String>),
    /// The policy knows the identities of the run before.
    Learned(Result<u64, AskError>),
    /// The endpoints' actors live.
    Spawned(Result<(), AskError>),
    /// The node's own addresses, or the policy's prefixes, are mapped.
    Synced(MappingSource, Result<(), AskError>),
    /// Every restored endpoint has settled.
    Settled(Result<BTreeMap<EndpointId, Result<(), Arc<str>>>, AskError>),
    /// Every endpoint that could not be built at first is by now, or is gone.
    Built(Result<(), AskError>),
    /// What nobody claims is gone from the kernel.
    Pruned(Result<KernelDone, AskError>),
    /// Try to remove what could not be.
    PruneAgain,
    /// That endpoint's state directories are in order, or gone.
    Tidied(EndpointId, Result<Result<(), DiskError>, AskError>),
}

impl Message for RestoreAnswer {
    fn kind(&self) -> &'static str {
        match self {
            Self::Reserved { .. } => "Reserved",
            Self::Described(_) => "Described",
            Self::Carried(_) => "Carried",
            Self::Learned(_) => "Learned",
            Self::Spawned(_) => "Spawned",
            Self::Synced(..) => "Synced",
            Self::Settled(_) => "Settled",
            Self::Built(_) => "Built",
            Self::Pruned(_) => "Pruned",
            Self::PruneAgain => "PruneAgain",
            Self::Tidied(..) => "Tidied",
        }
    }
}
