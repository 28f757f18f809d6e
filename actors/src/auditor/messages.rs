use std::{collections::BTreeMap, net::IpAddr, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{
    endpoint::EndpointView,
    host::{AskError, Message, Reply},
    identity::Identity,
    ipam::Lease,
    ports::{KernelDone, KernelSnapshot},
};

/// What looking found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct AuditView {
    /// Looks that came to an end.
    pub looks: u64,
    /// How long the last comparison took.
    pub took: Duration,
    /// What did not hold at the last look, by the invariant's name.
    pub broken: BTreeMap<String, Vec<String>>,
    /// How many things did not hold so far, by the invariant's name.
    pub found: BTreeMap<String, u64>,
}

/// What the auditor can be told.
pub enum AuditorMsg {
    /// From the supervisor of endpoints: it looked at the kernel.
    Look {
        /// The endpoints as they were before.
        before: Vec<Arc<EndpointView>>,
        /// What the kernel showed.
        kernel: Arc<KernelSnapshot>,
    },
    /// From the restore supervisor: nothing is left of earlier lives that nobody claims.
    Restored,
    /// Show what was found.
    Show(Reply<Arc<AuditView>>),

    /// From IPAM: addresses that are handed out.
    Leased(Result<BTreeMap<IpAddr, Lease>, AskError>),
    /// The identities.
    Identified(Result<Vec<Identity>, AskError>),
    /// From the kernel: some endpoints' policy maps.
    Read(Result<KernelDone, AskError>),
    /// From the supervisor of endpoints: how they are after all that.
    Listed(Result<Vec<Arc<EndpointView>>, AskError>),
}

impl Message for AuditorMsg {
    fn kind(&self) -> &'static str {
        match self {
            Self::Look { .. } => "Look",
            Self::Restored => "Restored",
            Self::Show(_) => "Show",
            Self::Leased(_) => "Leased",
            Self::Identified(_) => "Identified",
            Self::Read(_) => "Read",
            Self::Listed(_) => "Listed",
        }
    }
}
