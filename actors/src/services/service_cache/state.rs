//! The owner of services and its state: what outlives a crash, and where writing is.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    rc::Rc,
};

use super::{
    Balancing, ServiceSource, UnknownBackend,
    backends::Backends,
    batch::ServiceBatch,
    claims::ServiceClaims,
    expand::Surroundings,
    health::HealthCheckNews,
    inherited::{Findings, inherit},
    messages::ClusterObject,
    pressure::Pressure,
    remote::RemoteServices,
    reported::ReportedServices,
    source_object::Name,
    sweep::ServiceSweep,
    table::FrontendTable,
};
use crate::{
    host::{Lent, Ref, Reply, Survives},
    model::{
        Families, Manifest,
        drift::{DriftReply, DriftWatch},
    },
    ports::{Kernel, ServiceTables, UnusedNumbers},
    services::{health_checks::HealthChecksMsg, sockets::SocketsMsg},
};

/// How services are to be served.
#[derive(Clone, Debug)]
pub struct ServicesSettings {
    /// Name of this node.
    pub node: String,
    /// Families that are enabled.
    pub families: Families,
    /// How load is balanced.
    pub balancing: Balancing,
    /// Whether TCP connections end with their backend, rather than go on as long as it answers.
    pub ends_tcp: bool,
    /// Who says something of services.
    pub sources: BTreeSet<ServiceSource>,
}

/// The owner of frontends, backends and their numbers: gives each service what its sources say, and
/// writes the difference to what the kernel has, one batch at a time.
pub struct Services {
    pub(super) kernel: Rc<dyn Kernel>,
    pub(super) watch: DriftWatch,
    /// The comparison under way, and who asked for another one meanwhile.
    pub(super) sweep: Option<ServiceSweep>,
    pub(super) subscribers: Vec<DriftReply>,
    pub(super) settings: Rc<ServicesSettings>,
    /// Who ends what is connected to backends that go, if anybody need.
    pub(super) sockets: Option<Ref<SocketsMsg>>,
    /// Outlives a crash: what sources said is said only once.
    pub(super) state: Lent<ServiceCacheState>,
    /// Who waits for all that is due, in the next batch at the earliest.
    pub(super) askers: Vec<WrittenReply>,
    /// Where the batch under way is.
    pub(super) writing: Writing,
    /// None if the last batch was written.
    pub(super) failures: Option<Failures>,
    /// It told itself to go on.
    pub(super) going: bool,
    /// Who answers load balancers is being told something.
    pub(super) telling: bool,
}

impl Services {
    /// Makes each life of the actor. `found` is what the kernel's maps hold at start.
    pub fn factory(
        kernel: Rc<dyn Kernel>,
        settings: ServicesSettings,
        found: ServiceTables,
        sockets: Option<Ref<SocketsMsg>>,
        health_checks: Option<Ref<HealthChecksMsg>>,
        watch: DriftWatch,
    ) -> impl FnMut() -> Self + 'static {
        let (mut table, mut backends) = (FrontendTable::default(), Backends::default());
        let UnusedNumbers { backend, service } = found.unused;
        let unused = UnusedNumbers { backend: backend.max(1), service: service.max(1) };
        let room = found.room;
        backends.leaving.is_off = settings.ends_tcp;
        let findings = inherit(found, &mut table, &mut backends);
        for problem in findings.foreign.iter().chain(&findings.problems) {
            tracing::warn!("maps of services: {problem}");
        }
        let state = Survives::new(ServiceCacheState {
            reported: ReportedServices::default(),
            table,
            backends,
            claims: ServiceClaims::default(),
            surroundings: Surroundings {
                families: settings.families,
                balancing: settings.balancing,
                // Without a cluster there is no Node to have labels.
                labels: (!settings.sources.contains(&ServiceSource::Cluster)).then(BTreeMap::new),
                addresses: BTreeSet::new(),
                zone: None,
            },
            remote: RemoteServices::default(),
            news: VecDeque::new(),
            changed: BTreeSet::new(),
            awaited: settings.sources.clone(),
            doubtful: BTreeSet::new(),
            undecided: BTreeSet::new(),
            all_others_given: false,
            pruned: Pruned::default(),
            findings,
            unused,
            room,
            pressure: Pressure::default(),
            health: health_checks.map(HealthCheckNews::new),
            backends_gone: true,
            cluster: "cluster".into(),
        });
        let settings = Rc::new(settings);
        move || Self {
            kernel: Rc::clone(&kernel),
            watch: watch.clone(),
            sweep: None,
            subscribers: Vec::new(),
            settings: Rc::clone(&settings),
            sockets: sockets.clone(),
            state: state.lend(),
            writing: Writing::Resting,
            askers: Vec::new(),
            failures: None,
            going: false,
            telling: false,
        }
    }
}

pub(super) struct ServiceCacheState {
    pub(super) reported: ReportedServices,
    pub(super) table: FrontendTable,
    pub(super) backends: Backends,
    pub(super) claims: ServiceClaims,
    pub(super) surroundings: Surroundings,
    /// What other clusters share.
    pub(super) remote: RemoteServices,
    pub(super) news: VecDeque<ServiceNews>,
    /// Services that may come to something else than they were given.
    pub(super) changed: BTreeSet<Name>,
    pub(super) awaited: BTreeSet<ServiceSource>,
    /// Of these, some that want what an earlier run left of another service, it seems: if that one is still
    /// there it comes first, whatever their names.
    pub(super) doubtful: BTreeSet<Name>,
    /// Those that nobody knows of whether this node serves them: its labels say so.
    pub(super) undecided: BTreeSet<Name>,
    /// All others have been given what they wish.
    pub(super) all_others_given: bool,
    pub(super) pruned: Pruned,
    pub(super) findings: Findings,
    /// Which numbers the kernel says are unused.
    pub(super) unused: UnusedNumbers,
    pub(super) room: usize,
    pub(super) pressure: Pressure,
    /// What is told to who answers load balancers, if anybody does.
    pub(super) health: Option<HealthCheckNews>,
    /// Sockets may be connected to backends that are no more: the run before may have died as it
    /// removed some.
    pub(super) backends_gone: bool,
    pub(super) cluster: Rc<str>,
}

impl ServiceCacheState {
    /// Takes no more memory than is needed.
    pub(super) fn pack(&mut self) {
        self.reported.pack();
        self.table.pack();
        self.backends.pack();
        self.claims.pack();
    }
}

/// Something to be read.
pub(super) enum ServiceNews {
    Object(ClusterObject),
    Manifest(Manifest),
    /// All that the source knows has been read.
    Synced(ServiceSource),
}

/// Whose frontends stay although nobody named them: they are told apart from all others.
pub(super) type Apart = BTreeSet<ServiceSource>;

/// How far what an earlier run left and nobody named is gone.
#[derive(Default)]
pub(super) struct Pruned {
    /// Frontends, but for what may be of these,
    pub(super) frontends: Option<Apart>,
    /// and, once these are, backends to whom none leads.
    pub(super) backends: Option<Apart>,
}

/// Who waits for the kernel to have what is due.
pub(super) type WrittenReply = Reply<Result<(), UnknownBackend>>;

/// Where writing is.
#[derive(Default)]
pub(super) enum Writing {
    /// The kernel has no batch.
    #[default]
    Resting,
    /// It has this one. These wait for it, as it holds all that they asked for.
    InKernel { batch: ServiceBatch, askers: Vec<WrittenReply> },
    /// The last one failed: what is due waits for a while.
    Pausing,
}

/// Batches that failed in a row.
pub(super) struct Failures {
    pub(super) count: u32,
    /// Why the last one did.
    pub(super) error: String,
}
