//! A cluster with operators, and all that can happen to it.

use std::time::Duration;

use serde_json::{Value, json};
use volvox_actors_simulated::{ports::ClusterError, testing::MemoryCluster};

use super::{
    agents::{AgentsTruth, marks},
    oracle::{HEARTBEAT, Truth},
    outcome::OperatorsTally,
    pooled::PooledTruth,
    process::{COLLECTION, Process, single},
    stored::{RESTORED_AFTER, StoredTruth},
};
use crate::random::Random;

/// Operators at a time.
const PROCESSES: usize = 3;
/// Numbers of identities that pods have.
pub(super) const IDENTITIES: std::ops::RangeInclusive<u32> = 1001..=1004;
const NODES: usize = 6;
const PODS: usize = 4;
/// Who does nothing else comes to rest in fewer steps.
const STEPS_MAX: usize = 20_000;

pub(super) struct World {
    pub(super) cluster: MemoryCluster,
    processes: Vec<Process>,
    pub(super) truth: Truth,
    /// Agents on the nodes, if the history has some.
    pub(super) agents: Option<AgentsTruth>,
    /// The kvstore, if the history has one.
    pub(super) stored: Option<StoredTruth>,
    /// Pools, if nodes get prefixes of several.
    pub(super) pooled: Option<PooledTruth>,
    random: Random,
    pub(super) tally: OperatorsTally,
    /// Counts objects that were made.
    made: u64,
    failing: Option<&'static str>,
    /// So many of the oldest words and writes that are under way do not arrive yet.
    stuck: usize,
}

impl World {
    pub(super) fn new(seed: u64) -> Self {
        let cluster = MemoryCluster::new();
        cluster.stamp();
        cluster.be_slow();
        cluster.write_late();
        Self {
            cluster,
            processes: Vec::new(),
            truth: Truth::default(),
            agents: None,
            stored: None,
            pooled: None,
            random: Random::new(seed),
            tally: OperatorsTally::default(),
            made: 0,
            failing: None,
            stuck: 0,
        }
    }

    pub(super) fn complaint(&mut self) -> Option<String> {
        let agents = self.agents.as_ref();
        let of_agents = || agents.and_then(|agents| agents.complaint(&self.cluster));
        let of_writes = self.truth.complaint_of(self.cluster.take_writes());
        let stored = self.stored.as_mut();
        let of_store = || stored.and_then(StoredTruth::complaint);
        of_writes
            .or_else(|| self.truth.complaint(&self.cluster))
            .or_else(of_agents)
            .or_else(of_store)
            .or_else(|| self.pooled.as_mut()?.complaint(&self.cluster, &self.truth.nodes))
    }

    /// One thing happens; what, in words.
    pub(super) fn act(&mut self) -> String {
        let has_more = self.agents.is_some() || self.stored.is_some() || self.pooled.is_some();
        match self.random.roll(if has_more { 26 } else { 20 }) {
            0..=3 => self.steps(),
            4..=7 => self.time(),
            8 => self.start(),
            9 => self.kill(),
            10 | 11 => self.stall_or_resume(),
            12 | 13 => self.node(),
            14 | 15 => self.node_goes(),
            16 | 17 => self.pod(),
            18 => self.pod_goes(),
            19 => self.server(),
            20.. if self.stored.is_some() => self.store(),
            20.. if self.pooled.is_some() => self.pool(),
            20..=22 => self.agent(),
            _ => self.taint(),
        }
    }

    /// Some steps, in whatever order.
    fn steps(&mut self) -> String {
        let count = 1 + self.random.roll(40);
        let done = (0..count).take_while(|_| self.step()).count();
        format!("{done} steps")
    }

    /// One actor handles one message, or the server's next word arrives.
    fn step(&mut self) -> bool {
        let running = self.processes.iter().filter(|process| process.runs());
        let cells: usize = running.map(|process| process.universe.runnable_count()).sum();
        let words = self.cluster.jobs().saturating_sub(self.stuck);
        let stored = self.stored.as_ref().map_or(0, |it| it.store.jobs(it.now));
        let all = cells + words + stored;
        if all == 0 {
            return false;
        }
        self.tally.steps += 1;
        let mut chosen = self.random.roll(all);
        if let Some(stored) = self.stored.as_ref().filter(|_| chosen >= cells + words) {
            return stored.store.step(stored.now, chosen - cells - words);
        }
        if chosen >= cells {
            self.cluster.step(self.stuck + chosen - cells);
            return true;
        }
        for process in self.processes.iter().filter(|process| process.runs()) {
            let count = process.universe.runnable_count();
            if chosen < count {
                return process.universe.step(chosen);
            }
            chosen -= count;
        }
        false
    }

    /// Time passes, for some of it with all that happens meanwhile.
    fn time(&mut self) -> String {
        let most = [1, 5, 20, 100][self.random.roll(4)];
        let span = self.random.below(Duration::from_secs(most));
        if self.random.roll(3) == 0 {
            self.stuck = self.cluster.jobs();
        }
        let stuck = self.stuck;
        self.pass(span);
        self.stuck = 0;
        format!("{span:?} pass, and {stuck} things are under way")
    }

    fn pass(&mut self, span: Duration) {
        let mut left = span;
        while !left.is_zero() {
            let running = self.processes.iter().filter(|process| process.runs());
            let next = running.filter_map(|process| {
                let now = process.universe.host.now();
                process.universe.host.next_timer().map(|next| next.since(now))
            });
            // A timer that is due fires; whatever else, time goes on.
            let slice = next.min().unwrap_or(left).max(Duration::from_micros(1)).min(left);
            for process in &mut self.processes {
                match &mut process.stalled {
                    Some(missed) => *missed += slice,
                    None => {
                        process.universe.clock().advance(slice);
                        process.universe.host.fire_due();
                    }
                }
            }
            if let Some(stored) = &mut self.stored {
                stored.pass(slice);
            }
            left -= slice;
            let mut steps = 0;
            while steps < STEPS_MAX && self.step() {
                steps += 1;
            }
            self.bury();
        }
    }

    /// Whoever ended is started again by its kubelet, sooner or later.
    fn bury(&mut self) {
        self.processes.retain(|process| process.ended().is_none() || !process.runs());
    }

    pub(super) fn start(&mut self) -> String {
        if self.processes.len() >= PROCESSES {
            return "nobody starts".to_owned();
        }
        let Some(marks) = marks(self.agents.is_some()) else {
            return "its settings are wrong".to_owned();
        };
        self.tally.started += 1;
        let store = self.stored.as_ref().map(|it| &it.store);
        let prefixes = self.pooled.as_ref().map_or_else(single, PooledTruth::prefixes);
        let process = Process::start(&self.cluster, store, marks, prefixes, self.tally.started);
        self.processes.push(process);
        format!("operator {} starts", self.tally.started)
    }

    fn kill(&mut self) -> String {
        if self.processes.is_empty() {
            return "nobody dies".to_owned();
        }
        let chosen = self.random.roll(self.processes.len());
        drop(self.processes.remove(chosen));
        format!("operator {chosen} of those that run dies")
    }

    fn stall_or_resume(&mut self) -> String {
        if self.processes.is_empty() {
            return "nobody stalls".to_owned();
        }
        let chosen = self.random.roll(self.processes.len());
        let process = &mut self.processes[chosen];
        match process.runs() {
            true => {
                process.stalled = Some(Duration::ZERO);
                format!("operator {chosen} of those that run stands still")
            }
            false => {
                let missed = process.stalled.unwrap_or_default();
                process.resume();
                format!("operator {chosen} goes on after {missed:?}")
            }
        }
    }

    fn unique(&mut self, of: &str) -> String {
        self.made += 1;
        format!("{of}-{}", self.made)
    }

    fn apply(&mut self, kind: &str, namespace: &str, name: &str, more: Value) {
        let uid = self.unique(kind);
        let mut object = json!({
            "kind": kind,
            "metadata": { "name": name, "namespace": namespace, "uid": uid },
        });
        if let (Some(object), Value::Object(more)) = (object.as_object_mut(), more) {
            object.extend(more);
        }
        self.cluster.apply(object);
    }

    fn remove(&self, kind: &str, namespace: &str, name: &str) {
        if let Some(object) = self.cluster.object(kind, namespace, name) {
            self.cluster.delete(&object);
        }
    }

    /// A node joins.
    fn node(&mut self) -> String {
        let name = format!("node-{}", self.random.roll(NODES));
        if self.truth.nodes.contains_key(&name) {
            return format!("{name} is there");
        }
        self.join(name)
    }

    fn join(&mut self, name: String) -> String {
        // Whoever joins makes its CiliumNode anew, as another one's it is not.
        self.remove("CiliumNode", "", &name);
        self.truth.alone.remove(&name);
        let marked = match &mut self.agents {
            Some(agents) => agents.join(&mut self.random, &name),
            None => json!({}),
        };
        self.apply("Node", "", &name, marked);
        self.apply("CiliumNode", "", &name, json!({ "spec": {} }));
        let there = self.cluster.object("CiliumNode", "", &name).unwrap_or_default();
        let uid = there["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        self.truth.nodes.insert(name.clone(), uid);
        // Who gives it something may stand still at any moment of that.
        let steps = if self.random.roll(2) == 0 { self.steps() } else { "no steps".to_owned() };
        let then = if self.random.roll(3) == 0 { self.stall_or_resume() } else { String::new() };
        format!("{name} joins; {steps}; {then}")
    }

    /// Somebody taints a Node, who may be ahead of an operator that is about to.
    fn taint(&mut self) -> String {
        let (before, steps) = match self.random.roll(2) {
            0 => (self.agent(), self.steps()),
            _ => (String::new(), String::new()),
        };
        let Some(agents) = &mut self.agents else { return String::new() };
        let taint = agents.taint(&self.cluster, &mut self.random);
        format!("{before}; {steps}; {taint}")
    }

    /// Something happens to the kvstore.
    fn store(&mut self) -> String {
        let (before, steps) = match self.random.roll(3) {
            0 => (self.time(), self.steps()),
            1 => (self.back_up(), String::new()),
            _ => (String::new(), String::new()),
        };
        let Some(stored) = &mut self.stored else { return String::new() };
        let what = stored.act(&mut self.random);
        format!("{before}; {steps}; {what}")
    }

    /// A node asks for more or gives something back, or somebody changes a pool.
    fn pool(&mut self) -> String {
        let Some(pooled) = &mut self.pooled else { return String::new() };
        let what = pooled.act(&self.cluster, &self.truth.nodes, &mut self.random);
        let then = if self.random.roll(3) == 0 { self.stall_or_resume() } else { String::new() };
        format!("{what}; {then}")
    }

    /// The kvstore is backed up, and soon it needs that.
    fn back_up(&mut self) -> String {
        let Some(stored) = &mut self.stored else { return String::new() };
        stored.back_up();
        self.pass(RESTORED_AFTER);
        let Some(stored) = &mut self.stored else { return String::new() };
        stored.restore(&mut self.random)
    }

    /// Something happens to an agent.
    fn agent(&mut self) -> String {
        let Some(agents) = &mut self.agents else { return String::new() };
        agents.act(&self.cluster, &mut self.random)
    }

    /// A node goes, and its CiliumNode may be left.
    fn node_goes(&mut self) -> String {
        let name = format!("node-{}", self.random.roll(NODES));
        if self.truth.nodes.remove(&name).is_none() {
            return format!("{name} is not there");
        }
        self.remove("Node", "", &name);
        if let Some(agents) = &mut self.agents {
            agents.leave(&self.cluster, &name);
        }
        if self.random.roll(2) == 0 {
            self.remove("CiliumNode", "", &name);
        } else {
            self.truth.alone.insert(name.clone());
        }
        // Another one of its name may be known before it is known that the agents went.
        match self.agents.is_some() && self.random.roll(2) == 0 {
            true => format!("{name} goes; {}", self.join(name.clone())),
            false => format!("{name} goes"),
        }
    }

    /// A pod starts on some node; its agent takes an identity up for it.
    fn pod(&mut self) -> String {
        let name = format!("pod-{}", self.random.roll(PODS));
        if self.truth.pods.contains_key(&name) {
            return format!("{name} runs");
        }
        let left = self.cluster.object("CiliumEndpoint", "shop", &name);
        let id = match left.as_ref().and_then(|it| it["status"]["identity"]["id"].as_u64()) {
            // A pod of that name comes back, and what is left of it is as it should be.
            Some(id) => id as u32,
            None => {
                // One that is about to go is the one of interest.
                let marked = IDENTITIES.filter(|id| self.is_marked(*id)).collect::<Vec<_>>();
                let all = IDENTITIES.collect::<Vec<_>>();
                let is_marked = !marked.is_empty() && self.random.roll(2) == 0;
                self.random.one_of(if is_marked { &marked } else { &all })
            }
        };
        self.take_up(id);
        self.apply("Pod", "shop", &name, json!({ "status": { "phase": "Running" } }));
        if left.is_none() {
            self.apply(
                "CiliumEndpoint",
                "shop",
                &name,
                json!({ "status": { "identity": { "id": id } } }),
            );
        }
        self.truth.pods.insert(name.clone(), id);
        format!("{name} starts with identity {id}")
    }

    fn is_marked(&self, id: u32) -> bool {
        let there = self.cluster.object("CiliumIdentity", "", &id.to_string()).unwrap_or_default();
        there["metadata"]["annotations"][HEARTBEAT].is_string()
    }

    /// An agent makes an identity, or takes the mark off one that is to go.
    fn take_up(&mut self, id: u32) {
        let name = id.to_string();
        match self.cluster.object("CiliumIdentity", "", &name) {
            None => self.apply("CiliumIdentity", "", &name, json!({ "security-labels": {} })),
            Some(mut there) if there["metadata"]["annotations"][HEARTBEAT].is_string() => {
                there["metadata"]["annotations"] = json!({});
                self.cluster.apply(there);
            }
            Some(_) => {}
        }
    }

    /// A pod goes, and its CiliumEndpoint may be left.
    fn pod_goes(&mut self) -> String {
        let name = format!("pod-{}", self.random.roll(PODS));
        if self.truth.pods.remove(&name).is_none() {
            return format!("{name} does not run");
        }
        self.remove("Pod", "shop", &name);
        if self.random.roll(2) == 0 {
            self.remove("CiliumEndpoint", "shop", &name);
        }
        format!("{name} goes")
    }

    /// Something happens to the API server.
    fn server(&mut self) -> String {
        if let Some(kind) = self.failing.take() {
            self.cluster.fail(kind, None);
            return format!("{kind}s are served again");
        }
        let kinds = ["Lease", "CiliumNode", "CiliumEndpoint", "CiliumIdentity", "Pod", "Node"];
        match self.random.roll(kinds.len() + 1) {
            last if last == kinds.len() => {
                self.cluster.compact();
                "the server forgets what happened".to_owned()
            }
            chosen => {
                let kind = kinds[chosen];
                let error = ClusterError::Unreachable("connection refused".to_owned());
                self.cluster.fail(kind, Some(error));
                self.failing = Some(kind);
                format!("{kind}s are not served")
            }
        }
    }

    /// Nothing goes wrong any more: in the end all is given that was asked for, and nothing is left.
    pub(super) fn end(&mut self) -> Result<(), String> {
        if let Some(kind) = self.failing.take() {
            self.cluster.fail(kind, None);
        }
        if let Some(stored) = &mut self.stored {
            stored.calm();
        }
        for process in &mut self.processes {
            process.resume();
        }
        // One more, who may be the only one.
        self.start();
        // Two rounds to mark and to remove, with all that delays them.
        let long = (COLLECTION.unused + COLLECTION.identities) * 3 + Duration::from_secs(30);
        for _ in 0..long.as_secs() / 3 {
            self.pass(Duration::from_secs(3));
            if self.processes.is_empty() {
                // All of them had stood still, and ended when they went on.
                self.start();
            }
            self.complaint().map_or(Ok(()), Err)?;
            let leading = self.processes.iter().filter(|process| process.leads()).count();
            if leading > 1 {
                return Err(format!("{leading} operators lead"));
            }
            self.bury();
        }
        let pods: Vec<String> = (0..PODS).map(|number| format!("pod-{number}")).collect();
        let undone = self.truth.undone(&self.cluster, &pods);
        let agents = self.agents.as_ref();
        let of_agents = || agents.and_then(|agents| agents.undone(&self.cluster));
        let of_store = || self.stored.as_ref().and_then(StoredTruth::undone);
        let of_pools =
            || self.pooled.as_ref().and_then(|it| it.undone(&self.cluster, &self.truth.nodes));
        undone.or_else(of_agents).or_else(of_store).or_else(of_pools).map_or(Ok(()), Err)
    }
}
