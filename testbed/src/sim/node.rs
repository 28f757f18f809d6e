//! A node, what is around it, and what becomes of it as its history goes on.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, Ipv4Addr},
    rc::Rc,
    time::Duration,
};

use volvox_actors_simulated::{
    endpoints::{
        endpoint::Level,
        supervisor::{EndpointReference, EndpointsMsg},
    },
    host::{Answer, Reply},
    model::{EndpointId, IdentityId},
    testing::{Residue, Turn, World},
};

use super::{
    action::{Action, PODS, REMOTES, SOURCES},
    around::Server,
    calls::{Deleted, Rebuilt},
    far::Far,
    model::{App, Policy, pod_document},
    oracle::Oracle,
    pod::Pod,
    quarantine::Asked,
    rest::Realised,
    trace::Trace,
    uplink,
};

/// Whom the host has a connection with.
pub(super) const HOST_PEER: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 99));

/// Why a history ended badly.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// The action, by its place.
    pub at: usize,
    /// What was wrong.
    pub what: String,
}

/// What a history came to.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Lives of the agent.
    pub lives: u64,
    /// Endpoints that were there when these lives began, all together.
    pub endpoints: u64,
    /// Verdicts that were looked at.
    pub verdicts: u64,
    /// Records of the host.
    pub records: u64,
    /// The hash of all that happened.
    pub hash: u64,
    /// Processor time that it took, if that was measured.
    pub cpu: Duration,
}

/// A node and what is around it.
pub struct Node {
    pub(super) world: World,
    pub(super) oracle: Rc<RefCell<Oracle>>,
    pub(super) trace: Trace,
    pub(super) pods: BTreeMap<u8, Pod>,
    /// The agent has heard of manifests: of all at once, the first time.
    heard: bool,
    /// Manifests that the agent has not heard of as they are now.
    untold: BTreeSet<String>,
    /// Policies of which the API server holds rubbish.
    pub(super) rubbish: BTreeSet<String>,
    /// Deletions that the next agent is asked for.
    pub(super) queued: BTreeSet<String>,
    pub(super) deletions: Vec<(String, Answer<Deleted>)>,
    /// Endpoint numbers that were given back in this life.
    pub(super) freed: BTreeSet<EndpointId>,
    pub(super) rebuilds: Vec<(u64, Answer<Rebuilt>)>,
    pub(super) asked: Asked,
    /// Steps may fail.
    pub(super) faulty: bool,
    /// Nothing but kills happened to the state directory since the last rest.
    pub(super) tampered: bool,
    /// Records that were torn and are to be found in quarantine.
    pub(super) torn: usize,
    pub(super) empty: Residue,
    pub(super) wrong: Option<String>,
    /// The host has a connection too.
    pub(super) host_connected: bool,
    /// The numbers that labels had whenever the node was at rest: they outlive everything.
    pub(super) numbers: BTreeMap<App, IdentityId>,
    /// The number of the node's own endpoint, once it had one.
    pub(super) host_number: Option<EndpointId>,
    /// When the agent dies next, the machine loses power: with the state directory or without, and
    /// the seed of what is left.
    pub(super) power: Option<(bool, u64)>,
    /// Another cluster, if there is one.
    pub(super) far: Option<Far>,
    /// The pod of whose policy nothing is written.
    pub(super) hung: Option<u8>,
    /// How many interfaces to other machines there were.
    pub(super) uplink_numbers: u32,
    lives: u64,
    endpoints: u64,
}

impl Node {
    /// A node with an agent and without pods.
    pub fn new(trace: Trace) -> Self {
        let mut world = World::off();
        world.kernel.forget_steps();
        world.disk.forget_steps();
        world.kernel.tamper(|state| state.rows.links.clear());
        uplink::begin(&world.kernel);
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
            rebuilds: Vec::new(),
            asked: Vec::new(),
            tampered: false,
            faulty: false,
            torn: 0,
            wrong: None,
            host_connected: false,
            numbers: BTreeMap::new(),
            host_number: None,
            power: None,
            far: None,
            hung: None,
            uplink_numbers: 0,
            lives: 1,
            endpoints: 0,
        };
        node.watch();
        node
    }

    /// Lives through a history, to its end with all pods deleted.
    pub fn run(mut self, actions: &[Action]) -> Result<Tally, Failure> {
        self.live(actions)?;
        self.clear();
        match self.complaint() {
            Some(what) => Err(Failure { at: actions.len(), what }),
            None => Ok(self.tally()),
        }
    }

    /// Lives through a history until the node is at rest, and says what its datapath then is.
    pub fn realise(mut self, actions: &[Action]) -> Result<Realised, Failure> {
        self.live(actions)?;
        Ok(self.realised())
    }

    fn live(&mut self, actions: &[Action]) -> Result<(), Failure> {
        for (at, action) in actions.iter().chain([&Action::Rest]).enumerate() {
            self.trace.say(|| action.to_string());
            self.act(action);
            if let Some(what) = self.complaint() {
                return Err(Failure { at, what });
            }
        }
        Ok(())
    }

    fn tally(&self) -> Tally {
        Tally {
            lives: self.lives,
            endpoints: self.endpoints,
            verdicts: self.oracle.borrow().verdicts,
            records: self.trace.records(),
            hash: self.trace.hash(),
            cpu: Duration::ZERO,
        }
    }

    /// What is wrong, if anything is.
    fn complaint(&mut self) -> Option<String> {
        let crashes = self.trace.take_crashes();
        let violations = std::mem::take(&mut self.oracle.borrow_mut().violations);
        self.wrong.take().or(crashes.into_iter().next()).or(violations.into_iter().next())
    }

    pub(super) fn wrong(&mut self, what: impl Into<String>) {
        self.wrong.get_or_insert(what.into());
    }

    /// Shows the oracle every step of the kernel, and the trace those of the disk too.
    pub(super) fn watch(&mut self) {
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

    fn act(&mut self, action: &Action) {
        match action {
            Action::Add(pod) => self.add(*pod),
            Action::Cancel(pod) => self.cancel(*pod),
            Action::Remove(pod) => self.remove(*pod),
            Action::RemoveEarlier(pod) => self.remove_earlier(*pod),
            Action::Unplug(pod) => self.unplug(*pod),
            Action::Rob { pod, loot, seed } => self.rob(*pod, *loot, *seed),
            Action::Label { pod, app, reported } => self.label(*pod, *app, *reported),
            Action::Policies { source, policies, reported } => {
                self.policies(*source, policies.clone(), *reported);
            }
            Action::Follow => self.follow(),
            Action::Server(what) => self.server(*what),
            Action::Share => self.share(),
            Action::Store(what) => self.store(*what),
            Action::Remote { number, app } if *number > REMOTES => self.far_pod(*number, *app),
            Action::Remote { number, app } => self.remote(*number, *app),
            Action::Mesh => self.mesh(),
            Action::Far(what) => self.far(*what),
            Action::Configure(configured) => self.configure(*configured),
            Action::Service { number, members, reported } => {
                self.service(*number, *members, *reported)
            }
            Action::Ingress { number, there, reported } => self.ingress(*number, *there, *reported),
            Action::Quarantine { backend, expected } => self.quarantine(*backend, *expected),
            Action::Guard(expected) => self.guard(*expected),
            Action::Device { number, what, reported } => self.uplink(*number, *what, *reported),
            Action::Peer { number, prefix } => self.peer(*number, *prefix),
            Action::Native(expected) => self.native(*expected),
            Action::Deliver => self.deliver(true),
            Action::Relist(which) => self.relist(*which),
            Action::Unreadable(which) => self.unreadable(*which),
            Action::Hang(pod) => self.hang(*pod),
            Action::Room(rows) => self.room(*rows),
            Action::Prompt => self.prompt(),
            Action::Rebuild(pod) => self.rebuild(*pod),
            Action::Connect => self.connect(),
            Action::Steps { count, seed } => self.steps(*count, *seed),
            Action::Time { ms, seed } => self.time(Duration::from_millis((*ms).into()), *seed),
            Action::Stall { ms } => self.stall(Duration::from_millis((*ms).into())),
            Action::Jump { ms, wall } => self.jump(Duration::from_millis((*ms).into()), *wall),
            Action::Faults { kind, one_in, seed } => {
                self.faulty = true;
                self.faults(*kind, *one_in, *seed);
            }
            Action::FaultsOff => {
                self.faulty = false;
                self.world.fate.is_kind();
            }
            Action::Crash(which) => self.crash(*which),
            Action::Kill => self.kill(),
            Action::KillAt(nth) => {
                self.power = None;
                if self.world.is_alive() {
                    self.world.fate.at((*nth).into(), Turn::Die);
                }
            }
            Action::PowerCut { nth, tmpfs, seed } => {
                self.power = Some((*tmpfs, *seed));
                match self.world.is_alive() {
                    true => self.world.fate.at((*nth).into(), Turn::Die),
                    false => self.lose_power(),
                }
            }
            Action::Boot { reported } => self.boot(*reported),
            Action::Rewrite(version) => self.rewrite(*version),
            Action::Tear(pod) => self.tear(*pod),
            Action::Duplicate(pod, id) => self.duplicate(*pod, EndpointId(*id)),
            Action::Foreign => self.foreign(),
            Action::Drift(seed) => self.drift(*seed),
            Action::Unchanged => self.unchanged(),
            Action::Rest => self.rest(),
        }
        self.bury();
    }

    /// An agent that died is followed by another one.
    fn bury(&mut self) {
        if self.world.is_alive() && self.world.fate.is_dead() {
            match self.power {
                Some(_) => self.lose_power(),
                None => {
                    self.trace.say(|| "it died".to_owned());
                    self.kill();
                }
            }
            self.boot(true);
        }
    }

    pub(super) fn kill(&mut self) {
        if self.world.is_alive() {
            self.world.crash();
            self.freed.clear();
            self.rebuilds.clear();
            self.asked.clear();
            self.hang_up();
        }
    }

    pub(super) fn boot(&mut self, reported: bool) {
        if self.world.is_alive() {
            return;
        }
        self.lives += 1;
        self.clear_rubbish();
        self.endpoints += self.oracle.borrow().subjects.len() as u64;
        self.world.wake();
        self.watch();
        let kernel = self.world.kernel.clone();
        kernel.with(|state| self.oracle.borrow_mut().everything(state));
        self.heard = false;
        match &self.world.cluster {
            // It has what it was told, and is there or not.
            Some(cluster) => cluster.set_down(!reported),
            None => self.untold = self.world.manifests.keys().cloned().collect(),
        }
        if reported {
            self.deliver(false);
        }
        self.ask_queued();
    }

    fn label(&mut self, number: u8, app: App, reported: bool) {
        self.may_be(number, app);
        let name = Pod::name(number);
        let document = pod_document(&name, app);
        self.world.manifests.insert(name.clone(), vec![document]);
        self.changed(name, reported);
    }

    fn policies(&mut self, source: u8, policies: Vec<Policy>, reported: bool) {
        let name = format!("policies-{source}");
        let document =
            |(place, policy): (usize, &Policy)| policy.document(&format!("{name}-{place}"));
        let documents = policies.iter().enumerate().map(document).collect();
        self.world.manifests.insert(name.clone(), documents);
        self.oracle.borrow_mut().policies(source, policies);
        self.changed(name, reported);
    }

    /// From now on a pod may have that label, as well as those that it had since the last rest.
    fn may_be(&mut self, number: u8, app: App) {
        let Some(pod) = self.pods.get_mut(&number) else { return };
        pod.apps.retain(|other| *other != app);
        pod.apps.push(app);
        if let Some(subject) = self.oracle.borrow_mut().subjects.get_mut(&number) {
            subject.apps.clone_from(&pod.apps);
        }
    }

    /// What a manifest holds is to be told, now or later.
    pub(super) fn changed(&mut self, name: String, reported: bool) {
        self.untold.insert(name);
        if reported {
            self.deliver(false);
        }
    }

    /// Tells what was not told; and once more something that was.
    pub(super) fn deliver(&mut self, repeat: bool) {
        if !self.world.is_alive() {
            return;
        }
        self.server(Server::Up);
        let mut names: Vec<String> = std::mem::take(&mut self.untold).into_iter().collect();
        if repeat {
            names.extend(self.world.manifests.keys().next().cloned());
        }
        self.heard = true;
        self.tell(&names);
    }

    fn named(which: u8) -> String {
        if which < SOURCES { format!("policies-{which}") } else { Pod::name(which - SOURCES + 1) }
    }

    fn relist(&mut self, which: u8) {
        let name = Self::named(which);
        let Some(documents) = self.world.manifests.remove(&name) else { return };
        let now = if which < SOURCES {
            let mut oracle = self.oracle.borrow_mut();
            let now = oracle.policies_of(which);
            oracle.policies(which, Vec::new());
            Err(now)
        } else {
            let number = which - SOURCES + 1;
            let app = self.pods[&number].apps.last().copied();
            self.may_be(number, App::None);
            Ok(app)
        };
        if self.world.is_alive() && self.heard {
            self.tell(std::slice::from_ref(&name));
            self.steps(20, u64::from(which));
        }
        self.world.manifests.insert(name.clone(), documents);
        match now {
            Err(policies) => self.oracle.borrow_mut().policies(which, policies),
            Ok(app) => self.may_be(which - SOURCES + 1, app.unwrap_or(App::None)),
        }
        self.changed(name, true);
    }

    fn unreadable(&mut self, which: u8) {
        let name = Self::named(which);
        if self.world.cluster.is_some() {
            self.serve_rubbish(name);
        } else if self.world.is_alive() && self.heard {
            self.world.tell_unreadable(&name);
            // It can be read again by the time that anything else is told.
            self.untold.insert(name);
        }
    }

    fn connect(&mut self) {
        self.host_connected = true;
        let oracle = self.oracle.borrow();
        self.world.kernel.tamper(|state| {
            for subject in oracle.subjects.values().filter(|subject| subject.runs) {
                for address in subject.addresses.iter() {
                    state.connections.insert(address, subject.owner);
                }
            }
            // The host's own, which no pod has anything to do with.
            state.connections.insert(HOST_PEER, 0);
        });
    }

    fn rebuild(&mut self, number: u8) {
        let endpoint = self.oracle.borrow().subjects.get(&number).and_then(|it| it.endpoint);
        let (true, Some(id)) = (self.world.is_alive(), endpoint) else { return };
        let loads = self.world.kernel.with(|state| state.loads);
        let regenerate = |level| {
            move |reply: Reply<Rebuilt>| EndpointsMsg::Regenerate {
                target: EndpointReference::Id(id),
                level,
                reason: "asked for".into(),
                reply,
            }
        };
        // Two at once: the second is as much of a wish as the first.
        let endpoints = self.world.node_supervisor().endpoints.clone();
        drop(self.world.pose(&endpoints, regenerate(Level::Rewrite)));
        let answer = self.world.pose(&endpoints, regenerate(Level::Rebuild));
        self.rebuilds.push((loads, answer));
    }
}
