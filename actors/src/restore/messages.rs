//! Messages to the restore supervisor, its input at start, and the candidates to be restored.

use std::{collections::BTreeMap, net::IpAddr, sync::Arc};

use super::RestoreReport;
use crate::{
    endpoints::endpoint::RestoredEndpoint,
    host::{Lane, Message, Reply},
    model::Addresses,
    ports::KernelSnapshot,
    state_directory::{IdentityTable, ScannedDirectory},
};

/// All that is known at start.
#[derive(Debug)]
pub struct RestoreInput {
    /// What the state directory holds.
    pub disk: ScannedDirectory,
    /// What the kernel holds.
    pub kernel: KernelSnapshot,
    /// Identities of the run before.
    pub identities: IdentityTable,
    /// The address that pods route through, reserved once those of endpoints are.
    pub router: Addresses,
    /// Options of endpoints, by Cilium's names.
    pub options: Arc<BTreeMap<String, i64>>,
    /// Whether endpoints keep options of their own.
    pub keep_options: bool,
    /// Whether there is to be a host endpoint.
    pub host: bool,
    /// Addresses that the health endpoint had; `None` if there is to be none.
    pub health: Option<Addresses>,
    /// Whether endpoints are to be restored; if not, what there is of them is left alone.
    pub enabled: bool,
    /// Phases that ended already: name and length in seconds.
    pub phases: Vec<(String, f64)>,
    /// Problems that were met before the actors lived.
    pub problems: Vec<String>,
}

/// Who maps addresses besides endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MappingSource {
    /// The node.
    Node,
    /// The policy.
    Policy,
}

impl MappingSource {
    /// How many there are.
    pub(super) const COUNT: usize = 2;
}

/// What the restore supervisor can be told.
pub enum RestoreMsg {
    /// Begin. Answered when new endpoints may be made.
    Begin {
        /// What is known.
        input: Box<RestoreInput>,
        /// Where the answer goes.
        reply: Reply<()>,
    },
    /// Answered once every restored endpoint has settled and the node and the policy have said
    /// all that they know; with whether endpoints were restored at all.
    AwaitProgrammed(Reply<bool>),
    /// Show the report.
    Report(Reply<Arc<RestoreReport>>),
}

impl Message for RestoreMsg {
    fn kind(&self) -> &'static str {
        match self {
            Self::Begin { .. } => "Begin",
            Self::AwaitProgrammed(_) => "AwaitProgrammed",
            Self::Report(_) => "Report",
        }
    }

    fn lane(&self) -> Lane {
        Lane::Control
    }
}

/// An endpoint that is to be restored, and what is said of it in the report.
#[derive(Debug)]
pub(super) struct RestoreCandidate {
    pub(super) endpoint: RestoredEndpoint,
    pub(super) source: String,
    pub(super) notes: Vec<String>,
}

impl RestoreCandidate {
    /// The addresses that it is to keep.
    pub(super) fn addresses(&self) -> Addresses {
        self.endpoint.spec.addresses
    }

    /// Which pool an address is of. Only a record in JSON holds that, and what stands there stays.
    pub(super) fn learn_pool(&mut self, address: IpAddr, pool: String) {
        let spec = &mut self.endpoint.spec;
        let known = match address {
            IpAddr::V4(_) => &mut spec.ipv4_pool,
            IpAddr::V6(_) => &mut spec.ipv6_pool,
        };
        if known.is_empty() && !self.endpoint.on_disk {
            *known = pool;
        }
    }
}
