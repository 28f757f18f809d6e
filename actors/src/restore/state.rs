//! What the restore supervisor is: whom it talks to, how far it is, and what outlives a crash.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    net::IpAddr,
    rc::Rc,
    time::Duration,
};

use super::{messages::MappingSource, plan::RestorePlan, prune::Removal, report::RestoreReport};
use crate::{
    endpoints::{ipam::IpamMsg, supervisor::EndpointsMsg, workloads::WorkloadsMsg},
    host::{Lent, Ref, Reply, Survives, Time},
    model::{Addresses, EndpointId},
    node::{auditor::AuditorMsg, conntrack::ConntrackMsg, local_node::NodeMsg},
    policy::{
        identity::{Identity, IdentityMsg},
        ipcache::IpcacheMsg,
        rules::PolicyMsg,
    },
    ports::{Disk, FsOp, Kernel, KernelSnapshot},
    state_directory::ScannedDirectory,
};

/// How long another supervisor or a port may take.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// Whom the restore supervisor talks to.
#[derive(Clone)]
pub struct RestorePeers {
    /// BPF maps and programs.
    pub kernel: Rc<dyn Kernel>,
    /// The state directory.
    pub disk: Rc<dyn Disk>,
    /// The supervisor of endpoints.
    pub endpoints: Ref<EndpointsMsg>,
    /// Who has the addresses.
    pub ipam: Ref<IpamMsg>,
    /// Who maps addresses to identities.
    pub ipcache: Ref<IpcacheMsg>,
    /// Who has the identities.
    pub identities: Ref<IdentityMsg>,
    /// Who has the policy.
    pub policy: Ref<PolicyMsg>,
    /// Who knows the pods.
    pub workloads: Ref<WorkloadsMsg>,
    /// The node's own addresses.
    pub node: Ref<NodeMsg>,
    /// Who collects connections.
    pub conntrack: Ref<ConntrackMsg>,
    /// Who says what should never be.
    pub auditor: Ref<AuditorMsg>,
}

/// How far restoring is. After a crash it goes on at the beginning of that phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum RestorePhase {
    /// It was not told to begin.
    #[default]
    Idle,
    /// The state directory is put in order.
    Tidying,
    /// Addresses are reserved.
    Reserving,
    /// What no record says of pods is asked for.
    Describing,
    /// The policy hears of identities.
    Learning,
    /// Actors are spawned.
    Spawning,
    /// Endpoints regenerate.
    Settling,
    /// What nobody claims leaves the kernel,
    Pruning,
    /// and the state directory.
    Forgetting,
    /// All is done.
    Done,
}

/// Brings the endpoints of the run before back, then removes what nobody claims.
pub struct Restore {
    pub(super) peers: RestorePeers,
    pub(super) state: Lent<RestoreState>,
}

/// Addresses of the agent's own that nobody else is to have.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NodeReservations {
    /// Through which pods route.
    pub(super) router: Addresses,
    /// Those that the health endpoint had.
    pub(super) health: Addresses,
}

/// What outlives a crash: all of it, for the endpoints do too.
#[derive(Default)]
pub(super) struct RestoreState {
    pub(super) phase: RestorePhase,
    pub(super) enabled: bool,
    pub(super) plan: RestorePlan,
    pub(super) kernel: KernelSnapshot,
    pub(super) disk: ScannedDirectory,
    pub(super) report: RestoreReport,
    pub(super) opened: Option<Reply<()>>,
    pub(super) own: NodeReservations,
    /// What is left of endpoints that do not come back: their numbers and addresses are nobody's
    /// until it is gone.
    pub(super) remains: BTreeMap<EndpointId, BTreeSet<IpAddr>>,
    /// Numbers of host endpoints whose state directories are left for a time when there is one
    /// again: nobody else has them.
    pub(super) dormant: BTreeSet<EndpointId>,
    /// The host endpoint, if it comes back.
    pub(super) host: Option<EndpointId>,
    /// Whether there is to be one.
    pub(super) wants_host: bool,
    /// Identities that rows of endpoints still carry and to which references are to be taken.
    pub(super) carried: VecDeque<(EndpointId, Identity)>,
    /// Addresses that were reserved, and for whom.
    pub(super) reserved: BTreeMap<IpAddr, EndpointId>,
    /// Endpoints that came back.
    pub(super) alive: BTreeSet<EndpointId>,
    pub(super) settled: bool,
    /// Who waits until all of the run before is in force.
    pub(super) awaiting: Vec<Reply<bool>>,
    /// Who has mapped all that it knows.
    pub(super) synced: BTreeSet<MappingSource>,
    pub(super) cleanup: Cleanup,
    pub(super) phase_began: Time,
}

/// What is still to go, and what of it failed.
#[derive(Default)]
pub(super) struct Cleanup {
    /// Steps of the round under way.
    pub(super) prune: VecDeque<Removal>,
    /// What could not be removed yet, and how often that was tried.
    pub(super) unremoved: Vec<Removal>,
    pub(super) rounds: u32,
    /// Steps that bring endpoints' state directories in order and are not known to be done.
    pub(super) untidied: BTreeMap<EndpointId, Vec<FsOp>>,
    /// Endpoints that did not come back whose state directories are not known to be gone.
    pub(super) unforgotten: BTreeSet<EndpointId>,
    /// How many answers of the disk are awaited.
    pub(super) writing: usize,
}

impl Restore {
    /// Makes each life of a supervisor that waits to be told to begin.
    pub fn factory(peers: RestorePeers) -> impl FnMut() -> Self + 'static {
        let state = Survives::<RestoreState>::default();
        move || Self { peers: peers.clone(), state: state.lend() }
    }
}
