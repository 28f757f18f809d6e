//! Answers that concern the audit: what comes of own questions, timers and ports.

use std::{collections::BTreeMap, net::IpAddr, sync::Arc};

use crate::{
    endpoints::{endpoint::EndpointView, ipam::AddressLease},
    host::{AskError, Message},
    policy::identity::Identity,
    ports::KernelDone,
};

/// What the auditor hears of its own questions, timers and ports.
pub enum AuditorAnswer {
    /// From IPAM: addresses that are handed out.
    Leased(Result<BTreeMap<IpAddr, AddressLease>, AskError>),
    /// The identities.
    Identified(Result<Vec<Identity>, AskError>),
    /// From the kernel: some endpoints' policy maps.
    Read(Result<KernelDone, AskError>),
    /// From the supervisor of endpoints: how they are after all that.
    Listed(Result<Vec<Arc<EndpointView>>, AskError>),
}

impl Message for AuditorAnswer {
    fn kind(&self) -> &'static str {
        match self {
            Self::Leased(_) => "Leased",
            Self::Identified(_) => "Identified",
            Self::Read(_) => "Read",
            Self::Listed(_) => "Listed",
        }
    }
}
