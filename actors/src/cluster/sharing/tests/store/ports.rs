//! Ports of other nodes' pods that policies call by name.

use std::{cell::RefCell, collections::BTreeMap, rc::Rc, time::Duration};

use ipnet::IpNet;
use proptest::{collection::vec, prelude::*, sample::select};
use serde_json::json;

use super::fixture::{address, fixture, identity, labels, make, mapped};
use crate::{
    cluster::kvstore::ADDRESSES,
    endpoints::supervisor::EndpointReference,
    model::{Direction, IdentityId, PolicyRows},
    policy::rules::lookup,
    testing::{KernelState, KvLink, MemoryKvStore, World, to_http, with_http},
};

const PORTS: [u16; 4] = [80, 81, 82, 83];

/// Another node has a pod at that address which calls these ports `http`.
fn pod_at(store: &MemoryKvStore, ip: &str, id: u32, ports: &[u16]) {
    let port = |port| json!({ "Name": "HTTP", "Port": port, "Protocol": "TCP" });
    let ports: Vec<_> = ports.iter().map(port).collect();
    let value = json!({ "IP": ip, "HostIP": "192.0.2.7", "ID": id, "NamedPorts": ports });
    store.put(&format!("{ADDRESSES}{ip}"), &value.to_string());
}

/// Ports of an identity that these rows let `web` reach.
fn passing(rows: &PolicyRows, id: u32) -> Vec<u16> {
    let passes = |port| lookup(rows, Direction::Egress, IdentityId(id), 6, port).passes();
    PORTS.into_iter().filter(|&port| passes(port)).collect()
}

fn reached(world: &World, id: u32) -> Vec<u16> {
    passing(world.kernel.state().policy_of(101).unwrap(), id)
}

/// A node whose pod `web` may reach clients at `http`, and two clients' identities.
fn node() -> (World, MemoryKvStore) {
    let (mut world, store) = fixture();
    identity(&store, 300, &labels("client"));
    identity(&store, 301, &labels("client").replace("=client;", "=client;k8s:tier=x;"));
    world.boot();
    world.apply("policy", [to_http("web", "client")]);
    make(&mut world, 1, "web");
    (world, store)
}

#[test]
fn all_addresses_of_an_identity_count() {
    let (world, store) = node();
    pod_at(&store, "10.0.9.1", 300, &[80]);
    pod_at(&store, "10.0.9.2", 300, &[81, 82]);
    pod_at(&store, "10.0.9.3", 301, &[83]);
    world.settle();
    assert_eq!((reached(&world, 300), reached(&world, 301)), (vec![80, 81, 82], vec![83]));
    pod_at(&store, "10.0.9.2", 300, &[82]);
    world.settle();
    assert_eq!(reached(&world, 300), [80, 82]);
    // It becomes somebody else's, and one is nobody's.
    pod_at(&store, "10.0.9.2", 301, &[82]);
    world.settle();
    assert_eq!((reached(&world, 300), reached(&world, 301)), (vec![80], vec![82, 83]));
    store.delete(&format!("{ADDRESSES}10.0.9.3"));
    world.advance(Duration::from_secs(1));
    assert_eq!((reached(&world, 300), reached(&world, 301)), (vec![80], vec![82]));
    // What cannot be read names nothing, and the address stays.
    let value = r#"{"HostIP":"192.0.2.7","ID":300,"NamedPorts":[{"Name":"http","Port":70000}]}"#;
    store.put(&format!("{ADDRESSES}10.0.9.1"), value);
    world.settle();
    assert_eq!(mapped(&world, "10.0.9.1/32"), Some(300));
    assert_eq!(reached(&world, 300), [0; 0]);
    world.audit();
}

#[test]
fn a_pod_of_this_node_counts_once_and_while_it_is_here() {
    let (mut world, store) = node();
    pod_at(&store, "10.0.9.1", 300, &[82]);
    world.apply("client", [with_http(2, "client", 81)]);
    assert_eq!(world.create(crate::testing::spec(2)).unwrap().identity, IdentityId(300));
    world.settle();
    let own = store.get(&format!("{ADDRESSES}10.0.0.2")).unwrap();
    assert!(own.contains(r#""NamedPorts":[{"Name":"http","Port":81,"Protocol":"TCP"}]"#), "{own}");
    assert_eq!(reached(&world, 300), [81, 82]);
    // Others' names go, its own stay; and the other way round.
    address(&store, "10.0.9.1", 300);
    world.settle();
    assert_eq!(reached(&world, 300), [81]);
    pod_at(&store, "10.0.9.1", 300, &[82]);
    world.delete(EndpointReference::Address("10.0.0.2".parse().unwrap()));
    world.advance(Duration::from_secs(1));
    assert_eq!(reached(&world, 300), [82]);
    // What an earlier run of this node said of it is no other node's word.
    store.put(&format!("{ADDRESSES}10.0.0.2"), &own);
    world.settle();
    assert_eq!(reached(&world, 300), [82]);
    world.audit();
}

/// Names of pods whose number needs nobody to hand it out, as kube-dns, are known too.
#[test]
fn numbers_that_are_in_no_table_have_names_across_a_restart() {
    let (mut world, store) = fixture();
    world.boot();
    let mut policy = to_http("web", "client");
    policy["spec"]["egress"][0]["toEndpoints"] = json!([{
        "matchLabels": { "k8s-app": "kube-dns", "k8s:io.kubernetes.pod.namespace": "kube-system" },
    }]);
    world.apply("policy", [policy]);
    make(&mut world, 1, "web");
    pod_at(&store, "10.0.9.1", 102, &[80]);
    world.settle();
    assert_eq!((mapped(&world, "10.0.9.1/32"), reached(&world, 102)), (Some(102), vec![80]));
    world.crash();
    store.set_link(KvLink::Down);
    world.boot();
    world.advance(Duration::from_secs(60));
    assert_eq!(reached(&world, 102), [80]);
    // An agent that shares nothing forgets them.
    world.kvstore = None;
    world.restart();
    world.advance(Duration::from_secs(60));
    make(&mut world, 2, "other");
    world.kvstore = Some(store.clone());
    world.restart();
    world.advance(Duration::from_secs(60));
    assert_eq!(reached(&world, 102), [0; 0]);
    store.set_link(KvLink::Up);
    world.advance(Duration::from_secs(60));
    assert_eq!(reached(&world, 102), [80]);
    world.audit();
}

/// What other nodes say: whose an address is, and which ports are `http`.
type Truth = BTreeMap<&'static str, (u32, Vec<u16>)>;

#[derive(Clone, Debug)]
enum Step {
    Put(&'static str, u32, Vec<u16>),
    Delete(&'static str),
}

impl Step {
    fn make(&self, store: &MemoryKvStore, truth: &mut Truth) {
        match self {
            Self::Put(ip, id, ports) => {
                pod_at(store, ip, *id, ports);
                truth.insert(ip, (*id, ports.clone()));
            }
            Self::Delete(ip) => {
                store.delete(&format!("{ADDRESSES}{ip}"));
                truth.remove(ip);
            }
        }
    }
}

fn step() -> impl Strategy<Value = Step> {
    let ip = || select(&["10.0.9.1", "10.0.9.2", "10.0.9.3"]);
    let ports = proptest::sample::subsequence(PORTS.to_vec(), 0..=2);
    prop_oneof![
        3 => (ip(), select(&[300u32, 301]), ports).prop_map(|(ip, id, ports)| Step::Put(ip, id, ports)),
        1 => ip().prop_map(Step::Delete),
    ]
}

/// How a few changes meet the agent.
#[derive(Clone, Copy, Debug)]
enum How {
    Alive,
    /// It restarts without the store, and they are made while neither hears of the other.
    Away,
    /// It dies with all at work.
    Dying,
}

/// Whoever is in force as they were and as they will be is reached at what both call `http`.
fn keeps(state: &KernelState, before: &Truth, after: &Truth) -> Result<(), String> {
    let Some(rows) = state.policy_of(101) else { return Err("web has no policy".to_owned()) };
    for (ip, (_, ports)) in before {
        let row = state.rows.ipcache.get(&format!("{ip}/32").parse::<IpNet>().unwrap());
        let (Some(row), Some((_, then))) = (row, after.get(ip)) else { continue };
        let open = passing(rows, row.identity.0);
        if let Some(port) = ports.iter().find(|it| then.contains(it) && !open.contains(it)) {
            return Err(format!("{ip} is {} and not reached at {port}", row.identity));
        }
    }
    Ok(())
}

fn means(world: &World, truth: &Truth) -> Result<(), TestCaseError> {
    for id in [300, 301] {
        let theirs = truth.values().filter(|(of, _)| *of == id).flat_map(|(_, ports)| ports);
        let mut expected: Vec<u16> = theirs.copied().collect();
        expected.sort_unstable();
        expected.dedup();
        prop_assert_eq!(reached(world, id), expected, "{} of {:?}", id, truth);
    }
    Ok(())
}

/// What was so and what is so now, as a test goes on, and what went wrong meanwhile.
type Story = Rc<RefCell<(Truth, Truth, Result<(), String>)>>;

/// Looks on for as long as the agent lives.
fn look_on(world: &World, story: &Story) {
    let story = Rc::clone(story);
    world.kernel.watch(move |state, op| {
        let (before, after, result) = &mut *story.borrow_mut();
        if let Err(what) = keeps(state, before, after) {
            *result = Err(format!("{what} after {op:?}"));
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 48, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn policies_know_what_the_cluster_says_and_deny_nothing_that_stays(
        history in vec((select(&[How::Alive, How::Away, How::Dying]), vec(step(), 1..4)), 1..6)
    ) {
        let (mut world, store) = node();
        let story: Story = Rc::new(RefCell::new((Truth::new(), Truth::new(), Ok(()))));
        look_on(&world, &story);
        for (how, steps) in history {
            let before = story.borrow().1.clone();
            let mut truth = before.clone();
            if let How::Away = how {
                world.crash();
                store.set_link(KvLink::Down);
            }
            steps.iter().for_each(|step| step.make(&store, &mut truth));
            *story.borrow_mut() = (before.clone(), truth.clone(), Ok(()));
            match how {
                How::Alive => {}
                How::Away => {
                    world.start();
                    look_on(&world, &story);
                    world.advance(Duration::from_secs(60));
                    means(&world, &before)?;
                    store.set_link(KvLink::Up);
                }
                How::Dying => {
                    for _ in 0..9 {
                        world.life().universe.step(0);
                    }
                    world.crash();
                    world.start();
                    look_on(&world, &story);
                }
            }
            world.advance(Duration::from_secs(60));
            means(&world, &truth)?;
            prop_assert_eq!(&story.borrow().2, &Ok(()), "{:?}", how);
            world.audit();
        }
    }
}
