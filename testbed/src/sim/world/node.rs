//! A node with what surrounds it, and what is asked of its agent.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
    time::Duration,
};

use volvox_actors_simulated::{
    host::Answer,
    model::{EndpointId, IdentityId},
    testing::{Residue, World},
};

use super::{
    container_runtime::Deleted,
    devices,
    operator::{QuarantineRequests, Regenerated},
    pod::Pod,
    remote_cluster::RemoteCluster,
};
use crate::sim::{
    model::{PODS, policies::App},
    oracle::Oracle,
    record::trace::Trace,
};

/// A node and what is around it.
pub struct Node {
    pub(in crate::sim) world: World,
    pub(in crate::sim) oracle: Rc<RefCell<Oracle>>,
    pub(in crate::sim) trace: Trace,
    pub(in crate::sim) pods: BTreeMap<u8, Pod>,
    /// The agent has heard of manifests: of all at once, the first time.
    pub(in crate::sim) heard: bool,
    /// Manifests that the agent has not heard of as they are now.
    pub(in crate::sim) untold: BTreeSet<String>,
    /// Policies of which the API server holds rubbish.
    pub(in crate::sim) rubbish: BTreeSet<String>,
    /// Deletions that the next agent is asked for.
    pub(in crate::sim) queued: BTreeSet<String>,
    pub(in crate::sim) deletions: Vec<(String, Answer<Deleted>)>,
    /// Endpoint numbers that were given back in this life.
    pub(in crate::sim) freed: BTreeSet<EndpointId>,
    pub(in crate::sim) regenerations: Vec<(u64, Answer<Regenerated>)>,
    pub(in crate::sim) quarantine_requests: QuarantineRequests,
    /// Steps may fail.
    pub(in crate::sim) faulty: bool,
    /// More than kills happened to the state directory.
    pub(in crate::sim) tampered: bool,
    /// Records that were torn and are to be found in quarantine.
    pub(in crate::sim) torn: usize,
    pub(in crate::sim) empty: Residue,
    pub(in crate::sim) wrong: Option<String>,
    /// The host has a connection too.
    pub(in crate::sim) host_connected: bool,
    /// The numbers that labels had whenever the node was at rest: they outlive everything.
    pub(in crate::sim) numbers: BTreeMap<App, IdentityId>,
    /// The number of the node's own endpoint, once it had one.
    pub(in crate::sim) host_number: Option<EndpointId>,
    /// When the agent dies next, the machine loses power: with the state directory or without, and
    /// the seed of what is left.
    pub(in crate::sim) power: Option<(bool, u64)>,
    /// Another cluster, if there is one.
    pub(in crate::sim) remote_cluster: Option<RemoteCluster>,
    /// The pod of whose policy nothing is written.
    pub(in crate::sim) hung: Option<u8>,
    /// How many interfaces to other machines there were.
    pub(in crate::sim) device_numbers: u32,
    pub(in crate::sim) lives: u64,
    pub(in crate::sim) endpoints: u64,
}

impl Node {
    /// A node with an agent and without pods.
    pub fn new(trace: Trace) -> Self {
        let mut world = World::off();
        world.kernel.forget_steps();
        world.disk.forget_steps();
        world.kernel.tamper(|state| state.rows.links.clear());
        devices::begin(&world.kernel);
        // Few addresses, so that they are used again soon.
        world.settings.pools.ipv4 = "10.0.0.0/26".parse().ok();
        let recorder = trace.clone();
        world.recorder = Some(Box::new(move || recorder.recorder()));
        world.boot();
        world.advance(Duration::from_secs(1));
        let mut node = Self {
            empty: Residue::of(&world),
            world,
            oracle: Rc::default(),
            trace,
            pods: (1..=PODS).map(|number| (number, Pod::new(number))).collect(),
            heard: true,
            untold: BTreeSet::new(),
            rubbish: BTreeSet::new(),
            queued: BTreeSet::new(),
            deletions: Vec::new(),
            freed: BTreeSet::new(),
            regenerations: Vec::new(),
            quarantine_requests: Vec::new(),
            tampered: false,
            faulty: false,
            torn: 0,
            wrong: None,
            host_connected: false,
            numbers: BTreeMap::new(),
            host_number: None,
            power: None,
            remote_cluster: None,
            hung: None,
            device_numbers: 0,
            lives: 1,
            endpoints: 0,
        };
        node.watch();
        node
    }

    pub(in crate::sim) fn wrong(&mut self, what: impl Into<String>) {
        self.wrong.get_or_insert(what.into());
    }

    /// Shows the oracle every step of the kernel, and the trace those of the disk too.
    pub(in crate::sim) fn watch(&mut self) {
        let trace = self.trace.clone();
        self.world.disk.watch(move |step| trace.disk(step));
        if self.trace.keeps_flights() {
            self.world.kernel.record_to(&self.world.life().universe.host);
        }
        let (oracle, trace) = (Rc::clone(&self.oracle), self.trace.clone());
        self.world.kernel.watch(move |state, op| {
            trace.kernel(op);
            let mut oracle = oracle.borrow_mut();
            oracle.late |= trace.take_late();
            oracle.stepped(state, op);
        });
    }
}
