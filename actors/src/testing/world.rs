//! A whole node in memory, for tests and the simulator: starts, stops and questions to the agent.

use std::{collections::BTreeMap, rc::Rc, sync::Arc, time::Duration};

use serde_json::Value;

use super::{
    Fate, KernelState, MemoryCluster, MemoryDisk, MemoryHealth, MemoryKernel, MemoryKvStore,
    MemoryListeners, MemoryRemoteClusters, MemoryRuntime, samples::link, settings::settings,
};
use crate::{
    endpoints::{
        endpoint::{CreateError, EndpointSpec, EndpointState, EndpointView},
        ipam::IpamMsg,
        supervisor::{EndpointReference, EndpointsMsg},
        workloads::WorkloadsMsg,
    },
    host::{Answer, AskError, Message, NoRecorder, Recorder, Ref, Reply, Time, Universe},
    model::{Addresses, ApiObject, EndpointId, Labels, Manifest, PolicyRows},
    node::invariants::{self, EndpointFacts, Snapshot},
    node_supervisor::{NodeSupervisor, NodeSupervisorSettings, Ports},
    policy::rules::PolicyMsg,
    restore::{Inheritance, RestoreInput, RestoreMsg, RestoreReport},
    services::service_cache::ServicesMsg,
    state_directory::{IdentityTable, scan},
};

/// Longer than anything on this node may take.
const PATIENCE: Duration = Duration::from_secs(7200);

/// What a creation is answered.
pub type Created = Result<Arc<EndpointView>, CreateError>;

/// A whole node in memory: its kernel and its disk stay when the agent dies.
pub struct World {
    /// Decides whether steps of kernel and disk work.
    pub fate: Fate,
    /// The kernel.
    pub kernel: MemoryKernel,
    /// The disk.
    pub disk: MemoryDisk,
    /// The store that it shares with other nodes, if there is one.
    pub kvstore: Option<MemoryKvStore>,
    /// The API server that the next agent follows, in place of manifests.
    pub cluster: Option<MemoryCluster>,
    /// Other clusters that the next agent reads, if it does.
    pub clusters: Option<MemoryRemoteClusters>,
    /// The container runtime that the next agent follows, if it follows one.
    pub runtime: Option<MemoryRuntime>,
    /// Where load balancers ask for services.
    pub listeners: MemoryListeners,
    /// Where its health endpoint is, and who answers probes, if nodes are probed.
    pub health: Option<MemoryHealth>,
    /// What each source of manifests holds.
    pub manifests: BTreeMap<String, Vec<Value>>,
    /// Whether the next agent restores endpoints.
    pub restores: bool,
    /// Whether it leaves them all of their options.
    pub keeps_options: bool,
    /// How the next agent is run.
    pub settings: NodeSupervisorSettings,
    /// Makes the recorder of each life; without it nothing is kept.
    pub recorder: Option<Box<dyn Fn() -> Box<dyn Recorder>>>,
    life: Option<AgentLife>,
    /// Monotonic time when the last agent died.
    died: Duration,
}

/// One life of the agent.
pub struct AgentLife {
    /// The host and its clock.
    pub universe: Universe,
    /// The actors.
    pub node_supervisor: NodeSupervisor,
}

impl Default for World {
    fn default() -> Self {
        Self::new()
    }
}

impl World {
    /// A node with interfaces for pods 1 to 9 and an agent that has just started.
    pub fn new() -> Self {
        let mut world = Self::off();
        world.boot();
        world
    }

    /// The same without an agent.
    pub fn off() -> Self {
        let fate = Fate::default();
        let kernel = MemoryKernel::new(&fate);
        kernel.tamper(|state| (1..=9).for_each(|number| state.plug(link(number))));
        let disk = MemoryDisk::new(&fate);
        let manifests = BTreeMap::new();
        Self {
            fate,
            kernel,
            disk,
            kvstore: None,
            cluster: None,
            clusters: None,
            runtime: None,
            listeners: MemoryListeners::default(),
            health: None,
            manifests,
            restores: true,
            keeps_options: true,
            settings: settings(),
            recorder: None,
            life: None,
            died: Duration::ZERO,
        }
    }

    /// Starts an agent and lets it do what it does by itself.
    pub fn boot(&mut self) {
        self.start();
        self.settle();
    }

    /// Starts an agent and tells it all manifests.
    pub fn start(&mut self) {
        self.wake();
        if self.cluster.is_none() {
            let sources: Vec<String> = self.manifests.keys().cloned().collect();
            self.tell_manifests(&sources);
        }
    }

    /// Starts an agent that has not heard of any manifest.
    pub fn wake(&mut self) {
        let recorder = self.recorder.as_ref().map(|make| make());
        let universe = Universe::new(recorder.unwrap_or_else(|| Box::new(NoRecorder)));
        universe.clock().advance(self.died);
        self.disk.sweep();
        let found = self.disk.with(scan);
        let identities = self.disk.with(IdentityTable::load);
        let inheritance = Inheritance {
            identities: identities.value.unwrap_or_default(),
            identities_generation: identities.generation,
            kernel: self.kernel.with(KernelState::snapshot_at_boot),
        };
        let cluster = self.cluster.clone();
        let ports = Ports {
            kernel: Rc::new(self.kernel.clone()),
            disk: Rc::new(self.disk.clone()),
            kvstore: self.kvstore.as_ref().map(|store| Rc::new(store.clone()) as _),
            cluster: cluster.map(|cluster| Rc::new(cluster) as _),
            clusters: self.clusters.clone().map(|clusters| Rc::new(clusters) as _),
            health_listeners: Some(Rc::new(self.listeners.clone())),
            health_places: self.health.clone().map(|health| Rc::new(health) as _),
            probes: self.health.clone().map(|health| Rc::new(health) as _),
            container_runtime: self.runtime.clone().map(|runtime| Rc::new(runtime) as _),
            notices: None,
        };
        let node_supervisor =
            NodeSupervisor::spawn(&universe.host, &ports, self.settings.clone(), &inheritance);
        let input = RestoreInput {
            disk: found,
            kernel: inheritance.kernel,
            identities: inheritance.identities,
            router: Addresses { ipv4: "10.0.0.254".parse().ok(), ipv6: None },
            host: self.settings.policy.host_firewall,
            health: self.settings.health_endpoint.as_ref().map(|it| it.before),
            enabled: self.restores,
            keep_options: self.keeps_options,
            options: self.settings.options.clone().into(),
            phases: Vec::new(),
            problems: Vec::new(),
        };
        let opened: Answer<()> =
            universe.host.ask(&node_supervisor.restore, PATIENCE, "to open", |reply| {
                RestoreMsg::Begin { input: Box::new(input), reply }
            });
        drop(opened);
        self.life = Some(AgentLife { universe, node_supervisor });
    }

    /// The agent dies: what it had not done is not done.
    pub fn crash(&mut self) {
        if let Some(life) = self.life.take() {
            self.died = life.universe.host.now().since(Time::default());
        }
        self.kernel.forget();
        self.disk.forget();
        self.listeners.forget();
        self.health.iter().for_each(MemoryHealth::forget);
        if let Some(store) = &self.kvstore {
            store.forget();
        }
        if let Some(cluster) = &self.cluster {
            cluster.forget();
        }
        self.clusters.iter().for_each(MemoryRemoteClusters::forget);
        self.runtime.iter().for_each(MemoryRuntime::forget);
        self.fate.is_kind();
    }

    /// The machine loses power, and comes back with a kernel that holds nothing, and with what the
    /// disk kept: see [`MemoryDisk::cut_power`].
    pub fn cut_power(
        &mut self,
        tmpfs: bool,
        choose: &mut dyn FnMut(usize) -> usize,
    ) -> Vec<String> {
        self.crash();
        let complaints = self.disk.cut_power(tmpfs, choose);
        self.kernel.tamper(|state| *state = KernelState::default());
        self.health.iter().for_each(MemoryHealth::lose);
        self.died = Duration::ZERO;
        if let Some(store) = &self.kvstore {
            store.restart_clock();
        }
        if let Some(clusters) = &self.clusters {
            clusters.restart_clock();
        }
        complaints
    }

    /// The agent dies and is started again.
    pub fn restart(&mut self) {
        self.crash();
        self.boot();
    }

    /// Whether an agent runs.
    pub fn is_alive(&self) -> bool {
        self.life.is_some()
    }

    /// The agent that runs.
    pub fn life(&self) -> &AgentLife {
        self.life.as_ref().expect("an agent runs")
    }

    /// Its actors.
    pub fn node_supervisor(&self) -> &NodeSupervisor {
        &self.life().node_supervisor
    }

    /// Runs until nothing can go on, unless the agent dies. Time stands still.
    pub fn settle(&self) {
        loop {
            self.life().universe.settle();
            let worked = !self.fate.is_dead()
                && (self.kernel.step(0)
                    || self.disk.step()
                    || self.listeners.step()
                    || self.health.as_ref().is_some_and(MemoryHealth::step)
                    || self.answer_kvstore());
            if !worked {
                break;
            }
        }
    }

    fn answer_kvstore(&self) -> bool {
        let now = self.life().universe.host.now();
        self.kvstore.as_ref().is_some_and(|store| store.step(now, 0))
            || self.clusters.as_ref().is_some_and(|clusters| clusters.step(now))
            || self.runtime.as_ref().is_some_and(|runtime| runtime.step(now))
    }

    /// Lets time pass.
    pub fn advance(&self, span: Duration) {
        let universe = &self.life().universe;
        let end = universe.host.now() + span;
        self.settle();
        while let Some(next) = universe.host.next_timer().filter(|&next| next <= end) {
            if self.fate.is_dead() {
                return;
            }
            universe.clock().advance(next.since(universe.host.now()));
            universe.host.fire_due();
            self.settle();
        }
        universe.clock().advance(end.since(universe.host.now()));
    }

    /// A source of manifests holds these objects from now on.
    pub fn apply(&mut self, source: &str, objects: impl IntoIterator<Item = Value>) {
        self.manifests.insert(source.to_owned(), objects.into_iter().collect());
        if self.life.is_some() {
            self.tell_manifests(&[source.to_owned()]);
            self.settle();
        }
    }

    /// Tells the agent what these sources hold now.
    pub fn tell_manifests(&self, sources: &[String]) {
        let manifest = |source: &String| Manifest {
            source: source.clone(),
            objects: Ok(ApiObject::all(self.manifests.get(source).cloned().unwrap_or_default())),
        };
        self.tell(sources.iter().map(manifest).collect());
    }

    /// Tells the agent that a source cannot be read.
    pub fn tell_unreadable(&self, source: &str) {
        let objects = Err("it cannot be read".to_owned());
        self.tell(vec![Manifest { source: source.to_owned(), objects }]);
    }

    fn tell(&self, all: Vec<Manifest>) {
        let node_supervisor = self.node_supervisor();
        node_supervisor.workloads.tell(WorkloadsMsg::Manifests(all.clone())).unwrap();
        node_supervisor.services.tell(ServicesMsg::Manifests(all.clone())).unwrap();
        node_supervisor.policy.tell(PolicyMsg::Manifests(all)).unwrap();
    }

    /// Asks, without waiting.
    pub fn pose<M: Message, T: 'static>(
        &self,
        to: &Ref<M>,
        make: impl FnOnce(Reply<T>) -> M,
    ) -> Answer<T> {
        self.life().universe.host.ask(to, PATIENCE, "the test", make)
    }

    /// Asks, and waits as long as no time passes.
    pub fn try_ask<M: Message, T: 'static>(
        &self,
        to: &Ref<M>,
        make: impl FnOnce(Reply<T>) -> M,
    ) -> Option<Result<T, AskError>> {
        let mut answer = self.pose(to, make);
        self.settle();
        answer.now()
    }

    /// Asks; the answer must come without time passing.
    pub fn ask<M: Message, T: 'static>(&self, to: &Ref<M>, make: impl FnOnce(Reply<T>) -> M) -> T {
        self.try_ask(to, make).expect("an answer").expect("an answer that is none")
    }

    /// Begins to make an endpoint.
    pub fn begin_create(&self, spec: EndpointSpec) -> Answer<Created> {
        let spec = Box::new(spec);
        self.pose(&self.node_supervisor().endpoints, |reply| EndpointsMsg::Create {
            spec,
            sync: true,
            reply,
        })
    }

    /// Makes an endpoint, and gives it the time until its programs run by links.
    pub fn create(&self, spec: EndpointSpec) -> Created {
        let mut answer = self.begin_create(spec);
        self.settle();
        let answer = answer.now().expect("an answer").expect("an answer that is none");
        self.advance(crate::endpoints::endpoint::SETTLE_AFTER);
        answer
    }

    /// Deletes an endpoint; how many things could not be removed, `None` if there is none.
    pub fn delete(&self, target: EndpointReference) -> Option<u32> {
        let deleted = self
            .ask(&self.node_supervisor().endpoints, |reply| EndpointsMsg::Delete { target, reply });
        deleted.ok()
    }

    /// Every endpoint.
    pub fn list(&self) -> Vec<Arc<EndpointView>> {
        let labels = Labels::default();
        self.ask(&self.node_supervisor().endpoints, |reply| EndpointsMsg::List { labels, reply })
    }

    /// The endpoint of that number.
    pub fn get(&self, id: EndpointId) -> Arc<EndpointView> {
        let found = self.list().into_iter().find(|view| view.id == id);
        found.expect("the endpoint is there")
    }

    /// How restoring went.
    pub fn report(&self) -> Arc<RestoreReport> {
        self.ask(&self.node_supervisor().restore, RestoreMsg::Report)
    }

    /// Whether every endpoint is as it should be.
    pub fn all_ready(&self) -> bool {
        self.list().iter().all(|view| view.state == EndpointState::Ready && !view.failing)
    }

    /// Everything that the list of invariants looks at.
    pub fn facts(&self) -> Snapshot {
        let node_supervisor = self.node_supervisor();
        let endpoints = self.list();
        let desired = |view: &Arc<EndpointView>| {
            let subject = view.subject();
            let policy = self
                .ask(&node_supervisor.policy, |reply| PolicyMsg::ResolveOrKeep { subject, reply });
            let retained = || Arc::clone(&view.realised.policy);
            let rows = policy.map_or_else(retained, |policy| Arc::clone(&policy.rows));
            EndpointFacts::new(view, rows)
        };
        let leases = self.ask(&node_supervisor.ipam, IpamMsg::Dump).into_iter();
        let identities =
            self.ask(&node_supervisor.identities, crate::policy::identity::IdentityMsg::List);
        let used = identities.into_iter().filter(|identity| identity.references > 0);
        let state = self.kernel.state();
        Snapshot {
            endpoints: endpoints.iter().map(desired).collect(),
            leases: leases.map(|(address, lease)| (address, lease.owner)).collect(),
            identities: used.map(|identity| (identity.id, identity.labels)).collect(),
            policies: policies(&state),
            kernel: Arc::new(state.snapshot()),
            ..Snapshot::default()
        }
    }

    /// Asserts that every invariant holds, also those of rest, and that who looks from outside finds nothing.
    pub fn audit(&self) {
        let all = invariants::ALWAYS.iter().chain(invariants::AT_REST);
        let broken = invariants::check(all, &self.facts());
        assert!(broken.is_empty(), "{broken:#?}");
        assert_eq!(self.differences(), []);
    }
}

/// What is in the slot of each configuration row.
fn policies(state: &KernelState) -> BTreeMap<u32, Option<PolicyRows>> {
    let slots = state.rows.config.values().map(|row| row.policy_slot);
    slots.map(|slot| (slot, state.slots.get(&slot).cloned())).collect()
}
