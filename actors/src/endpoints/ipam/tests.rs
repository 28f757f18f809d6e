//! Tests: no address has two owners, none is lost, and none is handed out before restore is over.

use std::{net::IpAddr, sync::Arc, time::Duration};

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::{
    endpoints::{
        endpoint::EndpointState,
        workloads::{Workloads, WorkloadsMsg},
    },
    host::{Answer, AskError, Ref, Reply, Universe},
    model::{Addresses, EndpointId, Families, IdentityId},
    node::invariants::{self, EndpointFacts, Snapshot},
    ports::ObjectKey,
    state_directory::PoolPrefix,
    testing::crash,
};

const PATIENCE: Duration = Duration::from_secs(60);
const TEN_MINUTES: Duration = Duration::from_secs(600);

struct Fixture {
    universe: Universe,
    ipam: Ref<IpamMsg>,
}

impl Fixture {
    fn new(ipv4: Option<&str>, ipv6: Option<&str>) -> Self {
        let universe = Universe::default();
        let pools = Pools {
            ipv4: ipv4.map(|prefix| prefix.parse().unwrap()),
            ipv6: ipv6.map(|prefix| prefix.parse().unwrap()),
        };
        let ipam = universe.spawn("ipam", Ipam::factory(pools));
        Self { universe, ipam }
    }

    /// One whose restore is over.
    fn open(ipv4: Option<&str>, ipv6: Option<&str>) -> Self {
        let fixture = Self::new(ipv4, ipv6);
        fixture.ipam.tell(IpamMsg::RestoreFinished).unwrap();
        fixture
    }

    fn pose<T: 'static>(&self, make: impl FnOnce(Reply<T>) -> IpamMsg) -> Answer<T> {
        self.universe.host.ask(&self.ipam, PATIENCE, "an address", make)
    }

    fn ask<T: 'static>(&self, make: impl FnOnce(Reply<T>) -> IpamMsg) -> T {
        let mut answer = self.pose(make);
        self.universe.settle();
        answer.now().unwrap().unwrap()
    }

    fn reserve(&self, address: &str, owner: &str) -> Result<(), IpamError> {
        let (address, owner) = (ip(address), owner.to_owned());
        self.ask(|reply| IpamMsg::Reserve { address, owner, reply })
    }

    fn claim(&self, address: &str, owner: &str) -> Result<(), IpamError> {
        let (address, owner) = (ip(address), owner.to_owned());
        self.ask(|reply| IpamMsg::Claim { address, owner, external: false, reply })
    }

    fn release(&self, address: &str) -> Result<(), IpamError> {
        let address = ip(address);
        self.ask(|reply| IpamMsg::Release { address, reply })
    }

    fn allocate(&self, family: Option<AddressFamily>) -> Result<Vec<String>, IpamError> {
        self.ask(allocate(family, None)).map(|allocated| texts(&allocated))
    }

    fn held(&self) -> Vec<String> {
        self.ask(IpamMsg::Dump).keys().map(IpAddr::to_string).collect()
    }
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn texts(allocated: &Allocated) -> Vec<String> {
    let ipv4 = allocated.ipv4.map(|address| address.to_string());
    ipv4.into_iter().chain(allocated.ipv6.map(|address| address.to_string())).collect()
}

fn allocate(
    family: Option<AddressFamily>,
    expires: Option<Duration>,
) -> impl FnOnce(Reply<Result<Allocated, IpamError>>) -> IpamMsg {
    move |reply| IpamMsg::Allocate { family, owner: "ns/pod".into(), pool: None, expires, reply }
}

#[test]
fn walks_on_and_hands_out_a_freed_address_last() {
    let fixture = Fixture::open(Some("10.0.0.0/29"), None);
    for last in 1..=3 {
        assert_eq!(fixture.allocate(None).unwrap(), [format!("10.0.0.{last}")]);
    }
    fixture.release("10.0.0.2").unwrap();
    for last in [4, 5, 6, 2] {
        assert_eq!(fixture.allocate(None).unwrap(), [format!("10.0.0.{last}")]);
    }
    let full = fixture.allocate(None).unwrap_err();
    assert_eq!(full, IpamError::Exhausted { pool: "10.0.0.0/29".into(), size: 6 });
}

#[test]
fn neither_network_nor_broadcast_address_is_handed_out() {
    let fixture = Fixture::open(Some("10.0.0.0/30"), Some("fd00::/126"));
    assert_eq!(fixture.allocate(None).unwrap(), ["10.0.0.1", "fd00::1"]);
    assert_eq!(fixture.allocate(None).unwrap(), ["10.0.0.2", "fd00::2"]);
    assert!(matches!(fixture.allocate(None), Err(IpamError::Exhausted { size: 2, .. })));
    assert_eq!(fixture.allocate(Some(AddressFamily::Ipv6)).unwrap(), ["fd00::3"]);
    assert!(matches!(fixture.reserve("10.0.0.3", "x"), Err(IpamError::NotInPool { .. })));

    let tiny = Fixture::open(Some("10.0.0.8/31"), Some("fd00::/128"));
    assert_eq!(tiny.allocate(None).unwrap(), ["10.0.0.8", "fd00::"]);
}

#[test]
fn a_family_that_fails_leaves_nothing_of_the_other_behind() {
    let fixture = Fixture::open(Some("10.0.0.0/24"), Some("fd00::/128"));
    fixture.allocate(None).unwrap();
    assert!(matches!(fixture.allocate(None), Err(IpamError::Exhausted { size: 1, .. })));
    assert_eq!(fixture.held(), ["10.0.0.1", "fd00::"]);
    assert_eq!(fixture.allocate(Some(AddressFamily::Ipv4)).unwrap(), ["10.0.0.2"]);
}

#[test]
fn a_family_without_a_pool_is_disabled() {
    let fixture = Fixture::open(Some("10.0.0.0/24"), None);
    let disabled = Err(IpamError::Disabled(AddressFamily::Ipv6));
    assert_eq!(fixture.allocate(Some(AddressFamily::Ipv6)), disabled);
    assert_eq!(fixture.reserve("fd00::1", "x"), disabled.map(drop));
    assert_eq!(fixture.allocate(None).unwrap(), ["10.0.0.1"]);
}

#[test]
fn huge_pools_cost_nothing() {
    let fixture = Fixture::open(None, Some("f00d:0:0:7::/64"));
    assert_eq!(fixture.allocate(None).unwrap(), ["f00d:0:0:7::1"]);
    let everything = Fixture::open(None, Some("::/0"));
    assert_eq!(everything.allocate(None).unwrap(), ["::1"]);
}

#[test]
fn restored_addresses_may_lie_outside_the_pool_new_ones_not() {
    let fixture = Fixture::new(Some("10.0.0.0/24"), None);
    fixture.reserve("192.168.0.9", "endpoint 9").unwrap();
    fixture.reserve("fd00::9", "endpoint 9").unwrap();
    let taken = fixture.reserve("192.168.0.9", "endpoint 10").unwrap_err();
    assert_eq!(taken, IpamError::InUse { address: ip("192.168.0.9"), owner: "endpoint 9".into() });
    fixture.ipam.tell(IpamMsg::RestoreFinished).unwrap();
    let outside = fixture.reserve("192.168.0.10", "endpoint 10").unwrap_err();
    assert!(outside.to_string().contains("10.0.0.0/24"), "{outside}");
    fixture.release("192.168.0.9").unwrap();
    assert_eq!(fixture.release("192.168.0.9"), Err(IpamError::NotAllocated(ip("192.168.0.9"))));
}

#[test]
fn nothing_is_handed_out_before_every_restored_address_is_reserved() {
    let fixture = Fixture::new(Some("10.0.0.0/24"), None);
    let mut early = fixture.pose(allocate(None, None));
    fixture.universe.settle();
    assert_eq!(early.now(), None);
    fixture.reserve("10.0.0.1", "restored").unwrap();
    fixture.reserve("10.0.0.7", "restored").unwrap();
    fixture.ipam.tell(IpamMsg::RestoreFinished).unwrap();
    fixture.universe.settle();
    assert_eq!(texts(&early.now().unwrap().unwrap().unwrap()), ["10.0.0.8"]);
}

#[test]
fn questions_before_the_gate_are_bounded() {
    let fixture = Fixture::new(Some("10.0.0.0/16"), None);
    let mut answers = Vec::new();
    for _ in 0..257 {
        answers.push(fixture.pose(allocate(None, None)));
        fixture.universe.settle();
    }
    assert_eq!(answers[256].now(), Some(Ok(Err(IpamError::NotReady))));
    assert_eq!(answers[255].now(), None);
}

#[test]
fn who_no_longer_waits_gets_no_address() {
    let fixture = Fixture::new(Some("10.0.0.0/24"), None);
    let mut gone = fixture.pose(allocate(None, None));
    fixture.universe.advance(PATIENCE);
    assert_eq!(gone.now(), Some(Err(AskError::Deadline)));
    fixture.ipam.tell(IpamMsg::RestoreFinished).unwrap();
    assert!(fixture.held().is_empty());
}

#[test]
fn an_address_that_nobody_claims_is_given_back() {
    let fixture = Fixture::open(Some("10.0.0.0/24"), Some("fd00::/64"));
    fixture.ask(allocate(None, Some(TEN_MINUTES))).unwrap();
    fixture.claim("10.0.0.1", "ns/pod").unwrap();
    let leases = fixture.ask(IpamMsg::Dump);
    assert_eq!(leases[&ip("10.0.0.1")].expires_in, None);
    assert_eq!(leases[&ip("fd00::1")].expires_in, Some(TEN_MINUTES));
    fixture.universe.advance(TEN_MINUTES);
    assert_eq!(fixture.held(), ["10.0.0.1"]);
}

#[test]
fn a_timer_of_an_earlier_lease_does_not_end_a_later_one() {
    let fixture = Fixture::open(Some("10.0.0.0/32"), None);
    let half = TEN_MINUTES / 2;
    fixture.ask(allocate(None, Some(TEN_MINUTES))).unwrap();
    fixture.universe.advance(half);
    fixture.release("10.0.0.0").unwrap();
    fixture.ask(allocate(None, Some(TEN_MINUTES))).unwrap();
    fixture.universe.advance(half);
    assert_eq!(fixture.held(), ["10.0.0.0"]);
    fixture.universe.advance(half);
    assert!(fixture.held().is_empty());
}

#[test]
fn one_endpoint_can_claim_an_address_and_no_second_one() {
    let fixture = Fixture::open(Some("10.0.0.0/24"), None);
    fixture.reserve("10.0.0.5", "wanted").unwrap();
    fixture.claim("10.0.0.5", "ns/a").unwrap();
    fixture.claim("10.0.0.5", "ns/a").unwrap();
    let taken = IpamError::InUse { address: ip("10.0.0.5"), owner: "ns/a".into() };
    assert_eq!(fixture.claim("10.0.0.5", "ns/b"), Err(taken));
    fixture.claim("10.0.0.6", "ns/b").unwrap();
    assert_eq!(fixture.held(), ["10.0.0.5", "10.0.0.6"]);
}

#[test]
fn only_what_nobody_claimed_can_be_withdrawn() {
    let fixture = Fixture::new(Some("10.0.0.0/24"), None);
    let withdraw = |text: &str| {
        let address = ip(text);
        fixture.ask(|reply| IpamMsg::Withdraw { address, reply })
    };
    fixture.reserve("10.0.0.1", "router").unwrap();
    fixture.ipam.tell(IpamMsg::RestoreFinished).unwrap();
    fixture.ask(allocate(None, Some(TEN_MINUTES))).unwrap();
    fixture.claim("10.0.0.3", "ns/a").unwrap();
    for (address, owner) in [("10.0.0.1", "router"), ("10.0.0.3", "ns/a")] {
        let taken = IpamError::InUse { address: ip(address), owner: owner.into() };
        assert_eq!(withdraw(address), Err(taken));
    }
    assert_eq!(withdraw("10.0.0.2"), Ok(()));
    assert_eq!(withdraw("10.0.0.2"), Err(IpamError::NotAllocated(ip("10.0.0.2"))));
    assert_eq!(fixture.held(), ["10.0.0.1", "10.0.0.3"]);
}

#[test]
fn an_owner_and_a_known_pool_are_wanted() {
    let fixture = Fixture::open(Some("10.0.0.0/24"), None);
    assert_eq!(fixture.reserve("10.0.0.5", " "), Err(IpamError::NoOwner));
    let answer = fixture.ask(|reply| IpamMsg::Allocate {
        family: None,
        owner: "ns/pod".into(),
        pool: Some("blue".into()),
        expires: None,
        reply,
    });
    assert_eq!(answer, Err(IpamError::NoPool("blue".into())));
    assert!(fixture.held().is_empty());
}

#[test]
fn a_crash_forgets_neither_holders_nor_their_time() {
    let fixture = Fixture::open(Some("10.0.0.0/24"), None);
    fixture.ask(allocate(None, Some(TEN_MINUTES))).unwrap();
    fixture.universe.advance(TEN_MINUTES / 2);
    fixture.ipam.tell(IpamMsg::Dump(crash())).unwrap();
    fixture.universe.settle();
    assert_eq!(fixture.universe.host.cells()[0].crashes, 1);
    assert_eq!(fixture.allocate(None).unwrap(), ["10.0.0.2"]);
    fixture.universe.advance(TEN_MINUTES / 2);
    assert_eq!(fixture.held(), ["10.0.0.2"]);
}

#[derive(Clone, Debug)]
enum Step {
    Allocate { expires: bool },
    Claim(usize),
    Release(usize),
    Wait(u64),
    Crash,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => any::<bool>().prop_map(|expires| Step::Allocate { expires }),
        4 => (0usize..8).prop_map(Step::Claim),
        2 => (0usize..8).prop_map(Step::Release),
        2 => (1u64..500).prop_map(Step::Wait),
        1 => Just(Step::Crash),
    ]
}

/// The node as endpoints with those addresses and IPAM together make it.
fn snapshot(fixture: &Fixture, endpoints: &[Addresses]) -> Snapshot {
    let facts = |(id, &addresses): (u16, &Addresses)| EndpointFacts {
        id: EndpointId(id),
        state: EndpointState::Regenerating,
        failing: false,
        ifindex: 0,
        programs: true,
        addresses,
        identity: IdentityId::INIT,
        policy: Arc::default(),
    };
    let leases = fixture.ask(IpamMsg::Dump);
    Snapshot {
        endpoints: (1..).zip(endpoints).map(facts).collect(),
        leases: leases.into_iter().map(|(address, lease)| (address, lease.owner)).collect(),
        ..Snapshot::default()
    }
}

proptest! {
    /// Whatever happens, no address that an endpoint has is handed out again, and every address
    /// comes back in the end.
    #[test]
    fn no_history_makes_an_address_owned_twice(steps in prop::collection::vec(step(), 0..60)) {
        let fixture = Fixture::open(Some("10.0.0.0/28"), Some("fd00::/125"));
        let mut handed: Vec<Addresses> = Vec::new();
        let mut endpoints: Vec<Addresses> = Vec::new();
        let mut claims = 0;
        for step in steps {
            match step {
                Step::Allocate { expires } => {
                    let answer = fixture.ask(allocate(None, expires.then_some(TEN_MINUTES)));
                    handed.extend(answer.map(|got| Addresses { ipv4: got.ipv4, ipv6: got.ipv6 }));
                }
                Step::Claim(nth) if nth < handed.len() => {
                    let addresses = handed.remove(nth);
                    // Nobody's name comes twice: an owner may claim again what it has.
                    claims += 1;
                    let owner = format!("endpoint {claims}");
                    // One that expired may have gone to somebody else meanwhile.
                    let claimed =
                        addresses.iter().map(|one| fixture.claim(&one.to_string(), &owner));
                    if claimed.collect::<Result<Vec<_>, _>>().is_ok() {
                        endpoints.push(addresses);
                    } else {
                        for mine in addresses.iter() {
                            if fixture.ask(IpamMsg::Dump).get(&mine).is_some_and(|l| l.owner == owner) {
                                fixture.release(&mine.to_string()).unwrap();
                            }
                        }
                    }
                }
                Step::Release(nth) if nth < endpoints.len() => {
                    for address in endpoints.remove(nth).iter() {
                        fixture.release(&address.to_string()).unwrap();
                    }
                }
                Step::Wait(seconds) => fixture.universe.advance(Duration::from_secs(seconds)),
                Step::Crash => {
                    // Refused while it rests: then it crashed often enough.
                    // Refused while it rests with a full mailbox; nobody may hear the reply here.
                    if let Err(refused) = fixture.ipam.tell(IpamMsg::Dump(crash())) {
                        std::mem::forget(refused);
                    }
                    fixture.universe.advance(Duration::from_secs(31));
                }
                _ => {}
            }
            let node = snapshot(&fixture, &endpoints);
            prop_assert_eq!(invariants::check(invariants::ALWAYS, &node), []);
        }
        fixture.universe.advance(TEN_MINUTES);
        for address in fixture.ask(IpamMsg::Dump).into_keys() {
            fixture.release(&address.to_string()).unwrap();
        }
        prop_assert!((0..7).all(|_| fixture.allocate(None).is_ok()));
    }
}

#[test]
fn a_pod_s_pool_says_whether_it_is_masqueraded() {
    let universe = Universe::default();
    let workloads = universe.spawn("workloads", Workloads::factory("blue", "here", || None));
    let key = ObjectKey { namespace: String::new(), name: "own".to_owned() };
    let metadata = json!({ "annotations": { "ipam.cilium.io/skip-masquerade": "true" } });
    let pool = json!({ "metadata": metadata, "spec": { "ipv4": {} } });
    workloads.tell(WorkloadsMsg::Manifests(Vec::new())).unwrap();
    workloads.tell(WorkloadsMsg::Pools(vec![(key, Some(pool.into()))])).unwrap();
    let prefix = |text: &str, pool: &str| {
        let prefix = PoolPrefix { closed: false, pool: pool.to_owned() };
        (text.parse().unwrap(), prefix)
    };
    let several = SeveralPools {
        default_pool: "default".to_owned(),
        pre_allocation: [].into(),
        families: Families { ipv4: true, ipv6: false },
        prefixes: [prefix("10.1.0.0/28", "default"), prefix("10.2.0.0/28", "own")].into(),
    };
    let ear = workloads.clone();
    let peers = move || IpamPeers { workloads: Some(ear.clone()), demand: None };
    let home = Pools { ipv4: "10.1.0.0/28".parse().ok(), ipv6: None };
    let ipam = universe.spawn("ipam", Ipam::of_several(home, Some(several), peers));
    ipam.tell(IpamMsg::RestoreFinished).unwrap();
    let of = |pool: Option<&str>| {
        let (owner, pool) = ("shop/web".to_owned(), pool.map(str::to_owned));
        let mut answer = universe.host.ask(&ipam, PATIENCE, "an address", |reply| {
            IpamMsg::Allocate { family: None, owner, pool, expires: None, reply }
        });
        universe.settle();
        answer.now().unwrap().unwrap().unwrap().unmasqueraded
    };
    assert_eq!(of(Some("own")), Families { ipv4: true, ipv6: true });
    assert_eq!(of(Some("default")), Families::NONE);
    assert_eq!(of(None), Families::NONE);
}
