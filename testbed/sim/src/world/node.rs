//! A node with what surrounds it, and what is asked of its agent.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
    time::Duration,
};

use volvox_actors_simulated::{
    model::{EndpointId, IdentityId},
    testing::{Residue, World},
};

use super::{machine, pod::Pod, remote_cluster::RemoteCluster, requests::Requests};
use crate::{
    model::{PODS, policies::App},
    oracle::Oracle,
    record::trace::Trace,
};

/// What the agent has heard of manifests.
pub(crate) struct News {
    /// It has heard of them: of all at once, the first time.
    pub(crate) heard: bool,
    /// Manifests that it has not heard of as they are now.
    pub(crate) untold: BTreeSet<String>,
    /// Policies of which the API server holds rubbish.
    pub(crate) rubbish: BTreeSet<String>,
}

/// What goes wrong, or will.
#[derive(Default)]
pub(crate) struct Faults {
    /// Steps may fail.
    pub(crate) failing: bool,
    /// The pod of whose policy nothing is written.
    pub(crate) hung: Option<u8>,
    /// When the agent dies next, the machine loses power: with the state directory or without, and
    /// the seed of what is left.
    pub(crate) power: Option<(bool, u64)>,
}

/// What was true of the node whenever it was at rest, and has to stay.
#[derive(Default)]
pub(crate) struct Remembered {
    /// The numbers that labels had: they outlive everything.
    pub(crate) numbers: BTreeMap<App, IdentityId>,
    /// The number of the node's own endpoint, once it had one.
    pub(crate) host_number: Option<EndpointId>,
    /// The host has a connection too.
    pub(crate) host_connected: bool,
    /// Records that were torn and are to be found in quarantine.
    pub(crate) torn: usize,
    /// More than kills happened to the state directory.
    pub(crate) tampered: bool,
}

/// A node and what is around it.
pub struct Node {
    pub(crate) world: World,
    pub(crate) oracle: Rc<RefCell<Oracle>>,
    pub(crate) trace: Trace,
    pub(crate) pods: BTreeMap<u8, Pod>,
    pub(crate) news: News,
    pub(crate) requests: Requests,
    pub(crate) faults: Faults,
    pub(crate) remembered: Remembered,
    /// What there was before the first pod, and has to be all behind the last one.
    pub(crate) empty: Residue,
    pub(crate) wrong: Option<String>,
    /// Another cluster, if there is one.
    pub(crate) remote_cluster: Option<RemoteCluster>,
    /// How many interfaces to other machines there were.
    pub(crate) device_numbers: u32,
    /// Lives of the agent, this one as well.
    pub(crate) lives: u64,
    /// Endpoints that were there when these lives began, all together.
    pub(crate) endpoints: u64,
}

impl Node {
    /// A node with an agent and without pods.
    pub fn new(trace: Trace) -> Self {
        let mut world = World::off();
        world.kernel.forget_steps();
        world.disk.forget_steps();
        world.kernel.tamper(|state| state.rows.links.clear());
        machine::begin(&world.kernel);
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
            news: News { heard: true, untold: BTreeSet::new(), rubbish: BTreeSet::new() },
            requests: Requests::default(),
            faults: Faults::default(),
            remembered: Remembered::default(),
            wrong: None,
            remote_cluster: None,
            device_numbers: 0,
            lives: 1,
            endpoints: 0,
        };
        node.watch();
        node
    }

    pub(crate) fn wrong(&mut self, what: impl Into<String>) {
        self.wrong.get_or_insert(what.into());
    }

    /// Shows the oracle every step of the kernel, and the trace those of the disk too.
    pub(crate) fn watch(&mut self) {
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
