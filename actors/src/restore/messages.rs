use std::{collections::BTreeMap, net::IpAddr, sync::Arc};

use super::RestoreReport;
use crate::{
    endpoint::Held,
    endpoints::RestoredEndpoint,
    host::{AskError, Lane, Message, Reply},
    ipam::IpamError,
    model::{Addresses, EndpointId, NamedPorts},
    ports::{DiskError, KernelDone, KernelSnapshot},
    state::{Found, IdentityTable},
};

/// All that is known at start.
#[derive(Debug)]
pub struct RestoreInput {
    /// What the state directory holds.
    pub disk: Found,
    /// What the kernel holds.
    pub kernel: KernelSnapshot,
    /// Identities of the life before.
    pub identities: IdentityTable,
    /// The address that pods route through, reserved once those of endpoints are.
    pub router: Addresses,
    /// Options of endpoints, by Cilium's names.
    pub options: Arc<BTreeMap<String, i64>>,
    /// Whether endpoints keep options of their own.
    pub keep_options: bool,
    /// Whether there is to be a host endpoint.
    pub host: bool,
    /// Whether endpoints are to be restored; if not, what there is of them is left alone.
    pub enabled: bool,
    /// Phases that ended already: name and length in seconds.
    pub phases: Vec<(String, f64)>,
    /// Problems that were met before the actors lived.
    pub problems: Vec<String>,
}

/// Who maps addresses besides endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// The node.
    Node,
    /// The policy.
    Policy,
}

impl Source {
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

    /// Addresses are reserved, or why not.
    Reserved {
        /// Which, and for whom.
        wanted: Vec<(EndpointId, IpAddr)>,
        /// IPAM's answers, in the same order.
        answer: Result<Vec<Result<(), IpamError>>, AskError>,
    },
    /// What manifests say of ports that no record names.
    Described(Result<BTreeMap<EndpointId, NamedPorts>, AskError>),
    /// A reference to an identity that rows of an endpoint still carry, or why there is none.
    Carried(Result<Held, String>),
    /// The policy knows the identities of the life before.
    Learned(Result<u64, AskError>),
    /// The endpoints' actors live.
    Spawned(Result<(), AskError>),
    /// The node's own addresses, or the policy's prefixes, are mapped.
    Synced(Source, Result<(), AskError>),
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

impl Message for RestoreMsg {
    fn kind(&self) -> &'static str {
        match self {
            Self::Begin { .. } => "Begin",
            Self::AwaitProgrammed(_) => "AwaitProgrammed",
            Self::Report(_) => "Report",
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

    fn lane(&self) -> Lane {
        Lane::Control
    }
}

/// An endpoint that is to be restored, and what is said of it in the report.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) endpoint: RestoredEndpoint,
    pub(super) source: String,
    pub(super) notes: Vec<String>,
}

impl Candidate {
    /// The addresses that it is to keep.
    pub(super) fn addresses(&self) -> Addresses {
        self.endpoint.spec.addresses
    }
}
