//! Tests: the host's rows and ipcache entries follow the interfaces, also over faults and crashes.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    rc::Rc,
    time::Duration,
};

use super::*;
use crate::{
    endpoints::ipam::Pools,
    host::{Answer, Ref, Universe},
    model::{Addresses, Families, IdentityId, drift::DriftWatch},
    node::{
        devices::{Devices, DevicesSettings},
        routes::{Routes, RoutesSettings, RoutingMode},
    },
    policy::ipcache::{Ipcache, IpcacheMsg},
    ports::{KernelOp, KernelOutcome, Link, LxcRow, ServiceTables, lxc_flags},
    services::service_cache::{Balancing, Services, ServicesSettings},
    testing::{FakeKernel, crash},
};

const MINUTE: Duration = Duration::from_secs(60);
const HOST: LxcRow = LxcRow {
    ifindex: 0,
    endpoint: 0,
    flags: lxc_flags::HOST,
    mac: crate::model::Mac([0; 6]),
    node_mac: crate::model::Mac([0; 6]),
    identity: IdentityId(0),
    parent_ifindex: 0,
};

struct Fixture {
    universe: Universe,
    kernel: Rc<FakeKernel>,
    /// Where the ipcache writes.
    map: Rc<FakeKernel>,
    ipcache: Ref<IpcacheMsg>,
    node: Ref<NodeMsg>,
}

impl Fixture {
    fn new(families: Families, lxc: &[(&str, LxcRow)]) -> Self {
        let universe = Universe::default();
        let (kernel, map) = (FakeKernel::new(), FakeKernel::new());
        let ipcache = universe
            .spawn("ipcache", Ipcache::factory(Rc::clone(&map) as _, DriftWatch::default(), None));
        let settings = NodeSettings {
            families,
            router: Addresses { ipv4: "10.0.0.1".parse().ok(), ipv6: None },
            pod_interfaces: "lxc".into(),
            facts: Default::default(),
        };
        let lxc: BTreeMap<_, _> = lxc.iter().map(|&(address, row)| (ip(address), row)).collect();
        let services = ServicesSettings {
            node: "here".to_owned(),
            families,
            balancing: Balancing::default(),
            ends_tcp: false,
            sources: BTreeSet::new(),
        };
        let services = Services::factory(
            FakeKernel::new(),
            services,
            ServiceTables::default(),
            None,
            None,
            DriftWatch::default(),
        );
        let services = universe.spawn("services", services);
        let devices = DevicesSettings {
            patterns: Vec::new(),
            pod_interfaces: "lxc".into(),
            node_addresses: BTreeSet::new(),
            families,
            masquerade: families,
            unmasqueraded: BTreeSet::new(),
            own_prefixes: BTreeSet::new(),
            records: 0,
        };
        let devices = Devices::factory(FakeKernel::new(), devices, DriftWatch::default());
        let devices = universe.spawn("devices", devices);
        let routes = RoutesSettings {
            mode: RoutingMode::Native { direct: false, skip_unreachable: false },
            families,
            addresses: Addresses::default(),
            router: settings.router,
            pools: Pools::default(),
            own_prefixes: BTreeSet::new(),
            mtu: 1500,
            records: 0,
            alone: false,
        };
        let routes = universe.spawn("routes", Routes::factory(FakeKernel::new(), routes));
        let subscribers = NodeSubscribers { ipcache: ipcache.clone(), services, devices, routes };
        let make = Node::factory(
            Rc::clone(&kernel) as _,
            subscribers,
            settings,
            &lxc,
            DriftWatch::default(),
        );
        let node = universe.spawn("node", make);
        Self { universe, kernel, map, ipcache, node }
    }

    fn sync(&self) -> Answer<()> {
        let answer = self.universe.host.ask(&self.node, MINUTE * 10, "rows", NodeMsg::Sync);
        self.universe.settle();
        answer
    }

    /// Answers the look at the interfaces.
    fn links(&self, links: &[(&str, &[&str])]) {
        let links: BTreeMap<u32, Link> = (1..)
            .zip(links)
            .map(|(ifindex, (name, addresses))| {
                let addresses = addresses.iter().map(|text| text.parse().unwrap()).collect();
                (ifindex, Link { ifindex, name: (*name).into(), addresses, ..Link::default() })
            })
            .collect();
        let ops = self.kernel.answer(|_| KernelOutcome::Links(links.clone()));
        assert_eq!(ops, [KernelOp::ReadLinks]);
        self.universe.settle();
    }

    fn rows_written(&self) -> Vec<KernelOp> {
        let ops = self.kernel.succeed();
        self.universe.settle();
        ops
    }

    /// Lets the ipcache write all it has to; what it then holds, as text.
    fn mapped(&self) -> Vec<String> {
        while self.map.pending() > 0 {
            self.map.succeed();
            self.universe.settle();
        }
        let mut list = self.universe.host.ask(&self.ipcache, MINUTE, "all", IpcacheMsg::List);
        self.universe.settle();
        let list = list.now().unwrap().unwrap();
        list.iter().map(|(prefix, entry)| format!("{prefix} {}", entry.identity)).collect()
    }
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn put(address: &str) -> KernelOp {
    KernelOp::PutLxc { address: ip(address), row: HOST }
}

fn delete(address: &str) -> KernelOp {
    KernelOp::DeleteLxc { address: ip(address), endpoint: 0 }
}

const LO: (&str, &[&str]) = ("lo", &["127.0.0.1/8", "::1/128"]);
const ETH: (&str, &[&str]) = ("eth0", &["192.0.2.7/24", "2001:db8::7/64", "fe80::7/64"]);
const POD: (&str, &[&str]) = ("lxc42", &["203.0.113.9/32"]);
const IPV4: Families = Families { ipv4: true, ipv6: false };

#[test]
fn the_host_s_addresses_are_in_before_the_answer() {
    let fixture = Fixture::new(Families::DUAL, &[]);
    let mut synced = fixture.sync();
    fixture.links(&[LO, ETH, POD]);
    assert_eq!(fixture.rows_written(), [put("192.0.2.7"), put("2001:db8::7")]);
    assert_eq!(synced.now(), None);
    let expected =
        ["0.0.0.0/0 9", "10.0.0.1/32 1", "192.0.2.7/32 1", "::/0 10", "2001:db8::7/128 1"];
    assert_eq!(fixture.mapped(), expected);
    assert_eq!(synced.now(), Some(Ok(())));
}

#[test]
fn with_one_family_the_world_is_one_and_the_other_family_is_not_there() {
    let fixture = Fixture::new(IPV4, &[]);
    fixture.sync();
    fixture.links(&[ETH]);
    assert_eq!(fixture.rows_written(), [put("192.0.2.7")]);
    assert_eq!(fixture.mapped(), ["0.0.0.0/0 2", "10.0.0.1/32 1", "192.0.2.7/32 1"]);
}

#[test]
fn what_the_kernel_has_from_before_is_not_written_again() {
    let pod = LxcRow { endpoint: 42, flags: 0, ..HOST };
    let fixture = Fixture::new(IPV4, &[("192.0.2.7", HOST), ("10.0.0.9", pod)]);
    let mut synced = fixture.sync();
    fixture.links(&[ETH]);
    assert_eq!(fixture.kernel.pending(), 0);
    fixture.mapped();
    assert_eq!(synced.now(), Some(Ok(())));
    fixture.universe.advance(MINUTE);
    fixture.links(&[ETH]);
    assert_eq!((fixture.kernel.pending(), fixture.map.pending()), (0, 0));
}

#[test]
fn addresses_that_went_are_removed_and_pods_are_left_alone() {
    let pod = LxcRow { endpoint: 42, flags: 0, ..HOST };
    let fixture = Fixture::new(IPV4, &[("192.0.2.6", HOST), ("10.0.0.9", pod)]);
    fixture.sync();
    fixture.links(&[ETH]);
    assert_eq!(fixture.rows_written(), [put("192.0.2.7"), delete("192.0.2.6")]);
    fixture.mapped();
    fixture.universe.advance(MINUTE);
    fixture.links(&[("eth0", &["192.0.2.8/24"])]);
    assert_eq!(fixture.rows_written(), [put("192.0.2.8"), delete("192.0.2.7")]);
    assert_eq!(fixture.mapped(), ["0.0.0.0/0 2", "10.0.0.1/32 1", "192.0.2.8/32 1"]);
}

#[test]
fn a_failure_keeps_the_question_and_is_tried_again_soon() {
    let fixture = Fixture::new(IPV4, &[]);
    let mut synced = fixture.sync();
    fixture.kernel.fail();
    fixture.universe.advance(Duration::from_secs(1));
    fixture.links(&[ETH]);
    fixture.kernel.fail();
    fixture.universe.advance(Duration::from_secs(2));
    fixture.links(&[ETH]);
    assert_eq!(fixture.rows_written(), [put("192.0.2.7")]);
    assert_eq!(synced.now(), None);
    fixture.mapped();
    assert_eq!(synced.now(), Some(Ok(())));
}

#[test]
fn a_failing_ipcache_is_reported_and_not_told_twice() {
    let fixture = Fixture::new(IPV4, &[]);
    let mut synced = fixture.sync();
    fixture.links(&[]);
    fixture.map.fail();
    fixture.universe.settle();
    let mut status = fixture.universe.host.ask(&fixture.node, MINUTE, "status", NodeMsg::Show);
    fixture.universe.settle();
    let status = status.now().unwrap().unwrap();
    assert_eq!(status.last_error, Some(FakeKernel::error().to_string()));
    assert_eq!(synced.now(), None);
    fixture.universe.advance(Duration::from_secs(1));
    assert_eq!(fixture.mapped(), ["0.0.0.0/0 2", "10.0.0.1/32 1"]);
    fixture.links(&[]);
    assert_eq!(synced.now(), Some(Ok(())));
}

#[test]
fn two_questions_are_one_look() {
    let fixture = Fixture::new(IPV4, &[]);
    let mut both = [fixture.sync(), fixture.sync()];
    assert_eq!(fixture.kernel.pending(), 1);
    fixture.links(&[]);
    fixture.mapped();
    assert!(both.iter_mut().all(|answer| answer.now() == Some(Ok(()))));
}

#[test]
fn a_crash_forgets_no_row_and_looks_again() {
    let fixture = Fixture::new(IPV4, &[]);
    fixture.sync();
    fixture.links(&[ETH]);
    fixture.rows_written();
    fixture.mapped();
    fixture.node.tell(NodeMsg::Show(crash())).unwrap();
    fixture.universe.settle();
    fixture.links(&[]);
    assert_eq!(fixture.rows_written(), [delete("192.0.2.7")]);
    assert_eq!(fixture.mapped(), ["0.0.0.0/0 2", "10.0.0.1/32 1"]);
}

/// Who gives no answer may yet have done what it was told.
#[test]
fn what_was_done_without_an_answer_is_removed_when_it_is_no_more() {
    let fixture = Fixture::new(IPV4, &[]);
    fixture.sync();
    fixture.links(&[ETH]);
    fixture.universe.advance(MINUTE);
    assert_eq!(fixture.rows_written(), [put("192.0.2.7")]);
    fixture.universe.advance(Duration::from_secs(1));
    fixture.links(&[]);
    assert_eq!(fixture.rows_written(), [delete("192.0.2.7")]);
    fixture.mapped();
    fixture.universe.advance(MINUTE);
    fixture.links(&[ETH]);
    assert_eq!(fixture.rows_written(), [put("192.0.2.7")]);
    fixture.universe.advance(MINUTE);
    fixture.mapped();
    fixture.universe.advance(Duration::from_secs(2));
    fixture.links(&[]);
    assert_eq!(fixture.rows_written(), [delete("192.0.2.7")]);
    assert!(fixture.map.pending() > 0, "it is to go");
    fixture.universe.advance(MINUTE);
    assert_eq!(fixture.mapped(), ["0.0.0.0/0 2", "10.0.0.1/32 1"]);
    fixture.universe.advance(Duration::from_secs(3));
    fixture.links(&[ETH]);
    assert_eq!(fixture.rows_written(), [put("192.0.2.7")]);
    assert_eq!(fixture.mapped(), ["0.0.0.0/0 2", "10.0.0.1/32 1", "192.0.2.7/32 1"]);
    // Once it is known nothing is done again.
    fixture.universe.advance(MINUTE);
    fixture.links(&[ETH]);
    assert_eq!((fixture.kernel.pending(), fixture.map.pending()), (0, 0));
}

#[test]
fn what_the_ipcache_did_not_hear_is_told_again() {
    let fixture = Fixture::new(IPV4, &[]);
    let mut synced = fixture.sync();
    fixture.links(&[]);
    fixture.ipcache.tell(IpcacheMsg::List(crash())).unwrap();
    fixture.universe.settle();
    fixture.mapped();
    fixture.universe.advance(Duration::from_secs(1));
    fixture.links(&[]);
    assert_eq!(synced.now(), Some(Ok(())));
    assert_eq!(fixture.mapped(), ["0.0.0.0/0 2", "10.0.0.1/32 1"]);
}
