//! Tests: prefixes are asked for, taken up and given back, and what was given back is used by nobody,
//! whatever gets lost on the way.

use std::{collections::BTreeMap, net::IpAddr, rc::Rc, time::Duration};

use ipnet::IpNet;
use serde_json::{Value, json};

use super::*;
use crate::{
    endpoints::ipam::{Allocated, Ipam, IpamError, IpamMsg, IpamPeers, Pools, SeveralPools},
    host::{Answer, Late, Ref, Reply, Universe},
    model::Families,
    ports::ClusterError,
    state_directory::PoolRecord,
    testing::{Fate, MemoryCluster, MemoryDisk, Turn},
};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOME: &str = "10.0.0.0/28";

/// What outlives an agent.
struct Machine {
    cluster: MemoryCluster,
    disk: MemoryDisk,
    lives: u64,
}

/// A life of the agent.
struct Life {
    universe: Universe,
    ipam: Ref<IpamMsg>,
    owner: Ref<OwnPrefixesMsg>,
    disk: MemoryDisk,
    cluster: MemoryCluster,
}

impl Machine {
    fn new() -> Self {
        let cluster = MemoryCluster::new();
        cluster.stamp();
        let machine = Self { cluster, disk: MemoryDisk::new(&Fate::default()), lives: 0 };
        machine.give(&[("default", HOME)]);
        machine
    }

    fn node(&self) -> Value {
        let new = json!({ "kind": "CiliumNode", "metadata": { "name": "n1", "uid": "u" } });
        self.cluster.object("CiliumNode", "", "n1").unwrap_or(new)
    }

    /// The operator, or somebody else, has the node have these, and no others.
    fn give(&self, all: &[(&str, &str)]) {
        let mut by_pool = BTreeMap::<&str, Vec<&str>>::new();
        all.iter().for_each(|(pool, cidr)| by_pool.entry(pool).or_default().push(cidr));
        let entry = |(pool, cidrs)| json!({ "pool": pool, "cidrs": cidrs });
        let mut node = self.node();
        node["spec"]["ipam"]["pools"]["allocated"] = by_pool.into_iter().map(entry).collect();
        self.cluster.apply(node);
    }

    fn has(&self) -> Vec<String> {
        let node = self.node();
        let seen = seen::SeenOwnNode::read(&node);
        seen.prefixes().map(|(pool, cidr)| format!("{pool} {cidr}")).collect()
    }

    fn requested(&self) -> Value {
        self.node()["spec"]["ipam"]["pools"]["requested"].clone()
    }

    /// The agent starts; these addresses come back with their pods.
    fn start(&mut self, living: &[&str]) -> Life {
        self.lives += 1;
        self.disk.forget();
        self.cluster.forget();
        let stored = self.disk.with(|files| PoolRecord::SLOTS.load(files));
        let settings = OwnPrefixesSettings {
            node: "n1".to_owned(),
            default_pool: "default".to_owned(),
            home: Pools { ipv4: HOME.parse().ok(), ipv6: None },
            record: stored.value,
            trusted: true,
            generation: stored.generation,
            mark: format!("life {}", self.lives),
            seed: 1,
        };
        let several = SeveralPools {
            default_pool: "default".to_owned(),
            pre_allocation: [("default".to_owned(), 4)].into(),
            families: Families { ipv4: true, ipv6: false },
            prefixes: settings.prefixes(),
        };
        let universe = Universe::default();
        let late: Late<Ref<OwnPrefixesMsg>> = Late::default();
        let heard = late.clone();
        let peers = move || IpamPeers {
            workloads: None,
            demand: Some(heard.get().outlet(OwnPrefixesMsg::Demand)),
        };
        let ipam = universe.spawn("ipam", Ipam::of_several(settings.home, Some(several), peers));
        let (cluster, disk, to) = (self.cluster.clone(), self.disk.clone(), ipam.clone());
        let peers = move || OwnPrefixesPeers {
            cluster: Rc::new(cluster.clone()),
            disk: Rc::new(disk.clone()),
            ipam: to.clone(),
            heard_by: Vec::new(),
        };
        let owner = universe.spawn("own-prefixes", OwnPrefixes::factory(peers, settings));
        late.set(owner.clone());
        let (cluster, disk) = (self.cluster.clone(), self.disk.clone());
        let life = Life { universe, ipam, owner, disk, cluster };
        let living = ["10.0.0.1"].iter().chain(living);
        let desired = living.map(|it| (it.parse().unwrap(), format!("pod {it}"))).collect();
        let reserved = life.ask(|reply| IpamMsg::ReserveAll { desired, reply });
        assert!(reserved.iter().all(Result::is_ok), "{reserved:?}");
        life.ipam.tell(IpamMsg::RestoreFinished).unwrap();
        life.settle();
        life
    }
}

impl Life {
    fn settle(&self) {
        loop {
            self.universe.settle();
            if !self.disk.step() {
                break;
            }
        }
    }

    fn pass(&self, span: Duration) {
        for _ in 0..span.as_secs() * 2 {
            self.universe.clock().advance(SECOND / 2);
            self.universe.host.fire_due();
            self.settle();
        }
    }

    fn pose<T: 'static>(&self, make: impl FnOnce(Reply<T>) -> IpamMsg) -> Answer<T> {
        self.universe.host.ask(&self.ipam, MINUTE, "an address", make)
    }

    fn ask<T: 'static>(&self, make: impl FnOnce(Reply<T>) -> IpamMsg) -> T {
        let mut answer = self.pose(make);
        self.settle();
        answer.now().unwrap().unwrap()
    }

    fn want(&self, pool: &str, pod: &str) -> Answer<Result<Allocated, IpamError>> {
        let (pool, owner) = (Some(pool.to_owned()), pod.to_owned());
        self.pose(|reply| IpamMsg::Allocate { family: None, owner, pool, expires: None, reply })
    }

    fn allocate(&self, pool: &str, pod: &str) -> Result<String, IpamError> {
        let mut answer = self.want(pool, pod);
        self.pass(10 * SECOND);
        answer.now().unwrap().unwrap().map(|it| it.ipv4.unwrap().to_string())
    }

    fn release(&self, address: &str) {
        let address: IpAddr = address.parse().unwrap();
        self.ask(|reply| IpamMsg::Release { address, reply }).unwrap();
    }

    /// The sources say that the CiliumNode is another.
    fn news(&self) {
        let node = self.cluster.object("CiliumNode", "", "n1");
        let key = crate::ports::ObjectKey { namespace: String::new(), name: "n1".to_owned() };
        let news =
            OwnPrefixesMsg::Objects { objects: vec![(key, node.map(Into::into))], defined: true };
        self.owner.tell(news).unwrap();
        self.settle();
    }

    fn shown(&self) -> Vec<String> {
        let show = OwnPrefixesMsg::Show;
        let mut answer = self.universe.host.ask(&self.owner, MINUTE, "prefixes", show);
        self.settle();
        let view = answer.now().unwrap().unwrap();
        view.prefixes
            .iter()
            .map(|(prefix, it)| format!("{} {prefix} {}", it.pool, it.state))
            .collect()
    }
}

fn net(text: &str) -> IpNet {
    text.parse().unwrap()
}

#[test]
fn what_is_needed_is_asked_for_and_what_is_given_serves_whoever_waits() {
    let mut machine = Machine::new();
    let life = machine.start(&[]);
    assert_eq!(machine.requested(), json!([{ "pool": "default", "needed": { "ipv4-addrs": 8 } }]));
    let mut waiting = life.want("blue", "shop/web");
    life.pass(2 * SECOND);
    assert!(waiting.now().is_none());
    let one = json!({ "ipv4-addrs": 1 });
    assert_eq!(machine.requested()[0], json!({ "pool": "blue", "needed": one }));
    machine.give(&[("default", HOME), ("blue", "10.1.0.0/28")]);
    life.news();
    let allocated = waiting.now().unwrap().unwrap().unwrap();
    assert_eq!(allocated.ipv4, "10.1.0.1".parse().ok());
    assert_eq!(allocated.ipv4_pool, "blue");
    assert_eq!(life.shown(), ["default 10.0.0.0/28 home", "blue 10.1.0.0/28 open"]);
}

#[test]
fn who_waits_in_vain_is_told_the_pool_and_the_remedy_and_is_still_asked_for() {
    let mut machine = Machine::new();
    let life = machine.start(&[]);
    let mut node = machine.node();
    node["status"]["ipam"]["operator-status"]["error"] = "there is no CiliumPodIPPool blue".into();
    machine.cluster.apply(node);
    let error = life.allocate("blue", "shop/web").unwrap_err().to_string();
    assert!(error.contains("pool \"blue\" has no IPv4 address"), "{error}");
    assert!(error.contains("the operator says: there is no CiliumPodIPPool blue"), "{error}");
    assert_eq!(machine.requested().as_array().unwrap().len(), 2);
    life.pass(6 * MINUTE);
    assert_eq!(machine.requested().as_array().unwrap().len(), 1);
}

#[test]
fn an_unused_prefix_goes_back_after_a_while_and_serves_nobody() {
    let mut machine = Machine::new();
    machine.give(&[("default", HOME), ("blue", "10.1.0.0/28")]);
    let life = machine.start(&[]);
    assert_eq!(life.allocate("blue", "shop/web").unwrap(), "10.1.0.1");
    life.pass(MINUTE);
    assert_eq!(machine.has().len(), 2, "a pod has an address of it");
    life.release("10.1.0.1");
    life.pass(5 * SECOND);
    assert_eq!(machine.has().len(), 2, "pods that come and go do not make it go round");
    // Nobody answers, so the disk says so, and IPAM.
    machine.cluster.fail("CiliumNode", Some(ClusterError::Unreachable("gone".to_owned())));
    life.pass(MINUTE);
    let record = machine.disk.with(|files| PoolRecord::SLOTS.load(files)).value.unwrap();
    assert!(record.prefixes[&net("10.1.0.0/28")].closed, "{:?}", life.shown());
    assert!(life.allocate("blue", "shop/web").is_err());
    machine.cluster.fail("CiliumNode", None);
    drop(life);
    // Nor does a later life use it, although it still stands there.
    machine.cluster.fail("CiliumNode", Some(ClusterError::Unreachable("gone".to_owned())));
    let life = machine.start(&[]);
    assert!(life.allocate("blue", "shop/web").is_err());
    machine.cluster.fail("CiliumNode", None);
    life.pass(2 * MINUTE);
    assert_eq!(machine.has(), ["default 10.0.0.0/28"]);
    assert_eq!(life.shown(), ["default 10.0.0.0/28 home"]);
    // Given again it is as good as any other one.
    machine.give(&[("default", HOME), ("blue", "10.1.0.0/28")]);
    life.news();
    assert!(life.allocate("blue", "shop/web").is_ok());
}

#[test]
fn the_answer_to_a_write_may_be_lost_and_the_write_may_be_late() {
    let mut machine = Machine::new();
    machine.give(&[("default", HOME), ("blue", "10.1.0.0/28")]);
    machine.cluster.be_slow();
    machine.cluster.write_late();
    let life = machine.start(&[]);
    let is_surplus = || {
        let record = machine.disk.with(|files| PoolRecord::SLOTS.load(files)).value;
        record.is_some_and(|it| it.prefixes.get(&net("10.1.0.0/28")).is_some_and(|it| it.closed))
    };
    for _ in 0..600 {
        life.pass(SECOND);
        if is_surplus() {
            break;
        }
        (0..machine.cluster.jobs()).for_each(|_| machine.cluster.step(0));
    }
    life.pass(SECOND);
    assert!(is_surplus() && machine.cluster.jobs() > 0, "the write is under way");
    // It arrives while nobody is there who hears the answer.
    drop(life);
    machine.cluster.step(0);
    assert_eq!(machine.has(), ["default 10.0.0.0/28"]);
    let life = machine.start(&[]);
    assert!(life.allocate("blue", "shop/web").is_err());
}

#[test]
fn a_new_prefix_may_hold_pods_that_came_back() {
    let mut machine = Machine::new();
    machine.cluster.fail("CiliumNode", Some(ClusterError::Unreachable("gone".to_owned())));
    machine.give(&[("default", HOME), ("blue", "10.1.0.0/28")]);
    // The record is lost, and nobody can be asked.
    let life = machine.start(&["10.1.0.1", "10.1.0.3"]);
    assert!(life.allocate("blue", "shop/web").is_err());
    machine.cluster.fail("CiliumNode", None);
    life.pass(2 * MINUTE);
    let all = ["a", "b"].map(|pod| life.allocate("blue", pod).unwrap());
    assert_eq!(all, ["10.1.0.4", "10.1.0.5"]);
    assert_eq!(life.shown()[1], "blue 10.1.0.0/28 open");
}

#[test]
fn where_the_disk_says_nothing_the_object_is_marked_before_anything_is_taken_up() {
    let mut machine = Machine::new();
    machine.give(&[("default", HOME), ("blue", "10.1.0.0/28")]);
    let life = machine.start(&[]);
    life.settle();
    let writes = machine.cluster.take_writes();
    let crate::ports::Verb::Merge(first) = &writes[0].verb else { panic!("{writes:?}") };
    assert_eq!(first["metadata"]["annotations"][seen::MARK], "life 1");
    assert!(first["metadata"]["resourceVersion"].is_string());
    assert_eq!(life.shown().len(), 2);
    drop(life);
    // A restart of one that has its record writes nothing.
    let life = machine.start(&[]);
    life.pass(SECOND);
    assert_eq!(machine.cluster.take_writes(), []);
    assert_eq!(life.shown().len(), 2);
}

#[test]
fn without_a_server_a_restart_has_all_that_it_had() {
    let mut machine = Machine::new();
    machine.give(&[("default", HOME), ("blue", "10.1.0.0/28")]);
    let life = machine.start(&[]);
    assert_eq!(life.allocate("blue", "shop/web").unwrap(), "10.1.0.1");
    drop(life);
    machine.cluster.fail("CiliumNode", Some(ClusterError::Unreachable("gone".to_owned())));
    let life = machine.start(&["10.1.0.1"]);
    assert_eq!(life.allocate("blue", "shop/db").unwrap(), "10.1.0.2");
    let leases = life.ask(IpamMsg::Dump);
    assert_eq!(leases[&"10.1.0.1".parse().unwrap()].pool, "blue");
    assert_eq!(leases[&"10.0.0.1".parse().unwrap()].pool, "default");
}

#[test]
fn what_somebody_took_is_claimed_again_as_long_as_a_pod_uses_it() {
    let mut machine = Machine::new();
    machine.give(&[("default", HOME), ("blue", "10.1.0.0/28")]);
    let life = machine.start(&[]);
    assert_eq!(life.allocate("blue", "shop/web").unwrap(), "10.1.0.1");
    machine.give(&[("default", HOME)]);
    life.news();
    assert_eq!(
        machine.has(),
        ["blue 10.1.0.0/28", "default 10.0.0.0/28"]
            .map(String::from)
            .into_iter()
            .rev()
            .collect::<Vec<_>>()
    );
    assert_eq!(life.shown()[1], "blue 10.1.0.0/28 lost");
    assert!(life.allocate("blue", "shop/db").is_err(), "nothing more is handed out of it");
    // What is free there does not count.
    let needed = &machine.requested()[0]["needed"]["ipv4-addrs"];
    assert_eq!(needed, &json!(2 + 14 - 1));
    life.release("10.1.0.1");
    life.pass(MINUTE);
    assert_eq!(machine.has(), ["default 10.0.0.0/28"]);
    assert_eq!(life.shown(), ["default 10.0.0.0/28 home"]);
}

#[test]
fn a_disk_that_fails_holds_back_what_is_new_and_what_goes() {
    let mut machine = Machine::new();
    let fate = Fate::default();
    machine.disk = MemoryDisk::new(&fate);
    machine.give(&[("default", HOME), ("blue", "10.1.0.0/28")]);
    let life = machine.start(&[]);
    assert_eq!(life.allocate("blue", "shop/web").unwrap(), "10.1.0.1");
    fate.is(|_| Turn::Fail);
    machine.give(&[("default", HOME), ("blue", "10.1.0.0/28"), ("red", "10.2.0.0/28")]);
    life.news();
    assert!(life.allocate("red", "shop/db").is_err(), "no later life would know it");
    life.release("10.1.0.1");
    life.pass(2 * MINUTE);
    assert_eq!(machine.has().len(), 3, "nothing is given back that the disk does not say");
    fate.is(|_| Turn::Work);
    // Who wanted an address of another pool is waited for in the meantime.
    life.pass(7 * MINUTE);
    assert_eq!(machine.has(), ["default 10.0.0.0/28"]);
}
