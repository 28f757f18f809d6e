//! A cluster whose agents share pools with operators: agents ask for prefixes and give them back, and all of
//! them may die at any moment, while what they wrote is still on its way.

use std::{collections::BTreeMap, net::IpAddr, time::Duration};

use ipnet::IpNet;
use serde_json::{Value, json};
use volvox_actors_simulated::{
    endpoints::ipam::counted, operator::PrefixSource, ports::ClusterError, testing::MemoryCluster,
};

use super::{agents::marks, outcome::OperatorsTally, pool_agent::PoolNode, process::Process};
use crate::random::Random;

/// Operators at a time.
const PROCESSES: usize = 2;
/// Pools: there is enough of each for all that pods can want.
const POOLS: [(&str, &str, u8); 2] = [("default", "10.1.0.0/24", 29), ("blue", "10.2.0.0/24", 30)];
/// The nodes, and where each has its own address from.
const NODES: [(&str, &str); 3] =
    [("node-0", "10.1.0.0/29"), ("node-1", "10.1.0.8/29"), ("node-2", "10.1.0.16/29")];
/// Pods of each node.
const PODS: usize = 6;
const STEPS_MAX: usize = 20_000;
/// So long all goes well at the end: who asked in vain counts for five minutes as one who needs an address.
const CALM: Duration = Duration::from_secs(420);

/// How often it is looked whether all is done.
const TRIES: usize = 6;

pub(super) struct PoolWorld {
    cluster: MemoryCluster,
    nodes: Vec<PoolNode>,
    processes: Vec<Process>,
    random: Random,
    pub(super) tally: OperatorsTally,
    failing: bool,
    wrong: Option<String>,
}

/// What a node has, as its CiliumNode says.
fn allocated(cluster: &MemoryCluster, name: &str) -> Vec<IpNet> {
    let node = cluster.object("CiliumNode", "", name).unwrap_or_default();
    let pools = node["spec"]["ipam"]["pools"]["allocated"].as_array().cloned().unwrap_or_default();
    let cidrs = pools.iter().flat_map(|it| it["cidrs"].as_array().cloned().unwrap_or_default());
    cidrs.filter_map(|cidr| cidr.as_str()?.parse().ok()).collect()
}

impl PoolWorld {
    pub(super) fn new(seed: u64) -> Self {
        let cluster = MemoryCluster::new();
        cluster.stamp();
        cluster.be_slow();
        cluster.write_late();
        for (name, cidr, length) in POOLS {
            cluster.apply(json!({
                "kind": "CiliumPodIPPool",
                "metadata": { "name": name, "uid": format!("pool-{name}") },
                "spec": { "ipv4": { "cidrs": [cidr], "maskSize": length } },
            }));
        }
        for (name, home) in NODES {
            cluster.apply(json!({
                "kind": "Node", "metadata": { "name": name, "uid": format!("uid-{name}") },
            }));
            let pools = json!({ "allocated": [{ "pool": "default", "cidrs": [home] }] });
            cluster.apply(json!({
                "kind": "CiliumNode", "metadata": { "name": name, "uid": format!("cn-{name}") },
                "spec": { "ipam": { "pools": pools } },
            }));
        }
        let mut nodes: Vec<PoolNode> =
            NODES.iter().map(|(name, home)| PoolNode::new(name, home)).collect();
        nodes.iter_mut().for_each(|node| node.start(&cluster));
        let random = Random::new(seed);
        let (tally, processes) = (OperatorsTally::default(), Vec::new());
        Self { cluster, nodes, processes, random, tally, failing: false, wrong: None }
    }

    /// One thing happens; what, in words.
    pub(super) fn act(&mut self) -> String {
        let chosen = self.random.roll(self.nodes.len());
        let cluster = self.cluster.clone();
        match self.random.roll(24) {
            0..=5 => self.steps(),
            6..=8 => self.time(),
            9..=12 => self.pod(chosen),
            13..=15 => self.pod_ends(chosen),
            16 | 17 => self.restart(chosen),
            18 => {
                let was = self.nodes[chosen].kill();
                format!("the agent of node {chosen} is killed: {was}")
            }
            19 => {
                self.nodes[chosen].hear(&cluster);
                format!("node {chosen} hears of its CiliumNode")
            }
            20 => self.start_operator(),
            21 => self.kill_operator(),
            22 => self.lose(chosen),
            _ => {
                self.failing = !self.failing;
                self.fail();
                format!("CiliumNodes are served: {}", !self.failing)
            }
        }
    }

    fn fail(&self) {
        let error = || ClusterError::Unreachable("connection refused".to_owned());
        self.cluster.fail("CiliumNode", self.failing.then(error));
    }

    /// An agent that is dead, or is killed, starts; at times at once, while what it wrote is under way.
    fn restart(&mut self, chosen: usize) -> String {
        let cluster = self.cluster.clone();
        let node = &mut self.nodes[chosen];
        let was = node.kill();
        node.start(&cluster);
        format!("the agent of node {chosen} starts, and ran before: {was}")
    }

    /// What a node knew of its prefixes is lost, and its agent starts anew.
    fn lose(&mut self, chosen: usize) -> String {
        self.nodes[chosen].kill();
        self.nodes[chosen].lose_record();
        let steps = if self.random.roll(2) == 0 { self.steps() } else { String::new() };
        format!("node {chosen} lost its record; {steps}; {}", self.restart(chosen))
    }

    fn pod(&mut self, chosen: usize) -> String {
        let (pod, pool) = (format!("pod-{chosen}-{}", self.random.roll(PODS)), self.random.roll(2));
        let begins = self.nodes[chosen].begin_pod(&pod, POOLS[pool].0);
        format!("{pod} starts in pool {}: {begins}", POOLS[pool].0)
    }

    fn pod_ends(&mut self, chosen: usize) -> String {
        let all: Vec<String> = self.nodes[chosen].pods.keys().cloned().collect();
        if all.is_empty() {
            return format!("node {chosen} has no pods");
        }
        // Many end at once, so that prefixes become free.
        let many = if self.random.roll(2) == 0 { all } else { vec![self.random.one_of(&all)] };
        let ended = many.iter().filter(|pod| self.nodes[chosen].end_pod(pod)).count();
        format!("{ended} pods of node {chosen} end")
    }

    pub(super) fn start_operator(&mut self) -> String {
        let Some(marks) = marks(false).filter(|_| self.processes.len() < PROCESSES) else {
            return "no operator starts".to_owned();
        };
        self.tally.started += 1;
        let prefixes = PrefixSource::MultiPool(Vec::new());
        let process = Process::start(&self.cluster, None, marks, prefixes, self.tally.started);
        self.processes.push(process);
        format!("operator {} starts", self.tally.started)
    }

    fn kill_operator(&mut self) -> String {
        if self.processes.is_empty() {
            return "no operator dies".to_owned();
        }
        let chosen = self.random.roll(self.processes.len());
        drop(self.processes.remove(chosen));
        format!("operator {chosen} of those that run dies")
    }

    /// Some steps, in whatever order.
    fn steps(&mut self) -> String {
        let count = 1 + self.random.roll(30);
        let done = (0..count).take_while(|_| self.step()).count();
        format!("{done} steps")
    }

    /// One actor handles one message, the server's next word arrives, or a disk does a step.
    fn step(&mut self) -> bool {
        let operators = self.processes.iter().map(|it| &it.universe);
        let agents = self.nodes.iter().filter_map(|it| it.life.as_ref());
        let universes: Vec<_> = operators.chain(agents.map(|life| &life.universe)).collect();
        let cells: usize = universes.iter().map(|it| it.runnable_count()).sum();
        let words = self.cluster.jobs();
        let disks = self.nodes.iter().filter(|node| node.disk.jobs() > 0).count();
        if cells + words + disks == 0 {
            return false;
        }
        self.tally.steps += 1;
        let mut chosen = self.random.roll(cells + words + disks);
        if chosen >= cells + words {
            let mut busy = self.nodes.iter().filter(|node| node.disk.jobs() > 0);
            return busy.nth(chosen - cells - words).is_some_and(|node| node.disk.step());
        }
        if chosen >= cells {
            self.cluster.step(chosen - cells);
            self.look();
            return true;
        }
        for universe in universes {
            let count = universe.runnable_count();
            if chosen < count {
                universe.step(chosen);
                self.look();
                return true;
            }
            chosen -= count;
        }
        false
    }

    fn time(&mut self) -> String {
        let most = [1, 5, 20, 60][self.random.roll(4)];
        let span = self.random.below(Duration::from_secs(most));
        self.pass(span);
        format!("{span:?} pass")
    }

    /// Time passes, with all that happens meanwhile.
    fn pass(&mut self, span: Duration) {
        let mut left = span;
        while !left.is_zero() {
            let agents = self.nodes.iter().filter_map(|it| it.life.as_ref());
            let all = self.processes.iter().map(|it| &it.universe);
            let all: Vec<_> = all.chain(agents.map(|life| &life.universe)).collect();
            let next = all.iter().filter_map(|universe| {
                let now = universe.host.now();
                universe.host.next_timer().map(|next| next.since(now))
            });
            let slice = next.min().unwrap_or(left).max(Duration::from_micros(1)).min(left);
            for universe in all {
                universe.clock().advance(slice);
                universe.host.fire_due();
            }
            left -= slice;
            // At times something is under way for long.
            let most = if self.random.roll(3) == 0 { self.random.roll(20) } else { STEPS_MAX };
            let mut steps = 0;
            while steps < most && self.step() {
                steps += 1;
            }
            self.processes.retain(|process| process.ended().is_none());
        }
    }

    /// Pods that got an address have it of a prefix that is their node's, which nobody else has.
    fn look(&mut self) {
        let cluster = self.cluster.clone();
        let mut new = Vec::new();
        for node in &mut self.nodes {
            let name = node.name.clone();
            new.extend(node.take_answers().into_iter().map(|(pod, it)| (name.clone(), pod, it)));
        }
        for (node, pod, address) in new {
            let has = allocated(&cluster, &node);
            if !has.iter().any(|prefix| prefix.contains(&address)) {
                let what = format!("{pod} got {address}, which is not of {node}: it has {has:?}");
                self.wrong.get_or_insert(what);
            }
        }
    }

    /// The first thing that is wrong.
    pub(super) fn complaint(&mut self) -> Option<String> {
        self.look();
        if let Some(wrong) = self.wrong.take() {
            return Some(wrong);
        }
        let mut owners = BTreeMap::<IpAddr, &str>::new();
        let mut prefixes: Vec<(IpNet, &str)> = Vec::new();
        for node in &self.nodes {
            let has = allocated(&self.cluster, &node.name);
            for (pod, address) in &node.pods {
                if let Some(other) = owners.insert(*address, pod) {
                    return Some(format!("{address} is {pod}'s and {other}'s"));
                }
                if !has.iter().any(|prefix| prefix.contains(address)) {
                    return Some(format!("{pod} has {address}, and {} gave it back", node.name));
                }
            }
            for prefix in has {
                let overlap =
                    |(it, _): &&(IpNet, &str)| it.contains(&prefix) || prefix.contains(it);
                if let Some((other, whose)) = prefixes.iter().find(overlap) {
                    return Some(format!("{prefix} is {}'s, and {other} is {whose}'s", node.name));
                }
                prefixes.push((prefix, &node.name));
            }
        }
        None
    }

    /// Nothing goes wrong any more: whoever waits is served, and what nobody needs is given back.
    pub(super) fn end(&mut self) -> Result<(), String> {
        self.failing = false;
        self.fail();
        self.start_operator();
        let cluster = self.cluster.clone();
        for node in self.nodes.iter_mut().filter(|node| node.life.is_none()) {
            node.start(&cluster);
        }
        for _ in 0..CALM.as_secs() / 2 {
            self.pass(Duration::from_secs(2));
            if self.processes.is_empty() {
                self.start_operator();
            }
            self.nodes.iter().for_each(|node| node.hear(&cluster));
            self.complaint().map_or(Ok(()), Err)?;
        }
        // An operator that takes over gives once more what the Lease says, which goes back soon.
        let mut undone = None;
        for _ in 0..TRIES {
            while self.step() {}
            self.complaint().map_or(Ok(()), Err)?;
            undone = self.nodes.iter().find_map(|node| self.undone(node));
            if undone.is_none() {
                break;
            }
            self.pass(Duration::from_secs(30));
        }
        undone.map_or(Ok(()), Err)
    }

    /// What is not as it is to be, of a node, although nothing stood in the way.
    fn undone(&self, node: &PoolNode) -> Option<String> {
        let name = &node.name;
        let Some((owners, view, demand)) = node.look() else {
            return Some(format!("the agent of {name} does not answer"));
        };
        let moved = node.pods.iter().find(|(pod, address)| owners.get(address) != Some(pod));
        if let Some((pod, address)) = moved {
            return Some(format!(
                "{pod} has {address}, of which IPAM says {:?}",
                owners.get(address)
            ));
        }
        if node.waiting() > 0 {
            return Some(format!(
                "{} pods of {name} wait for addresses: {demand:?}",
                node.waiting()
            ));
        }
        let has = allocated(&self.cluster, name);
        let known: Vec<IpNet> = view.prefixes.keys().copied().collect();
        if let Some(prefix) = has.iter().find(|it| !known.contains(it)) {
            return Some(format!("{name} does not know that it has {prefix}"));
        }
        for (prefix, it) in &view.prefixes {
            let of = demand.pools.iter().find(|((pool, _), _)| *pool == it.pool);
            let (capacity, needed) = of.map_or((0, 0), |(_, it)| (it.capacity, it.needed));
            let is_unused = demand.used.get(prefix).is_none_or(|used| *used == 0);
            let rest = capacity.saturating_sub(counted(prefix));
            if is_unused && it.state != "home" && rest >= needed {
                let state = it.state;
                return Some(format!(
                    "{name} has {prefix} ({state}) in vain: {view:?}, {demand:?}"
                ));
            }
        }
        let node = self.cluster.object("CiliumNode", "", name).unwrap_or_default();
        let asked = &node["spec"]["ipam"]["pools"]["requested"];
        let is_wrong = |((pool, _), it): (
            &(String, _),
            &volvox_actors_simulated::endpoints::ipam::PoolUse,
        )| {
            let of = asked.as_array().into_iter().flatten().find(|it| it["pool"] == pool.as_str());
            let asks = of.map_or(0, |it| it["needed"]["ipv4-addrs"].as_u64().unwrap_or_default());
            (asks < it.needed).then(|| format!("{name} needs {it:?} of {pool} and asks for {asks}"))
        };
        demand.pools.iter().find_map(is_wrong)
    }
}

/// For who shows it.
impl std::fmt::Debug for PoolWorld {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let all: Vec<Value> = NODES
            .iter()
            .filter_map(|(name, _)| self.cluster.object("CiliumNode", "", name))
            .collect();
        write!(f, "{all:?}")
    }
}
