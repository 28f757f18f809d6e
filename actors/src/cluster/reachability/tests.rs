//! Tests: who does not answer is named soon and not too soon, and nobody is flooded.

use std::{cell::RefCell, collections::BTreeMap, net::IpAddr, rc::Rc, sync::Arc, time::Duration};

use super::{
    Reachability, ReachabilityMsg, ReachabilityPeers, ReachabilitySettings, ReachabilityView,
    schedule::{self, ECHOES_PER_SECOND},
};
use crate::{
    cluster::remote_nodes::{
        NodeAddress, NodeEntry, RemoteNodesList, RemoteNodesMsg, RemoteNodesSource,
    },
    host::{Behaviour, Cx, NoAnswer, Ref, Universe},
    model::{Addresses, Families, NodeKey},
    testing::{Fate, MemoryHealth, MemoryKernel, crash},
};

type Others = Rc<RefCell<BTreeMap<NodeKey, NodeEntry>>>;

/// Stands for the owner of the cluster's nodes.
struct FakeNodes(Others);

impl Behaviour for FakeNodes {
    type Msg = RemoteNodesMsg;
    type Answer = NoAnswer;
    type Observed = ();

    fn handle(&mut self, msg: RemoteNodesMsg, _: &mut Cx<'_, Self>) {
        if let RemoteNodesMsg::List(reply) = msg {
            let (source, nodes) = (RemoteNodesSource::Store, self.0.borrow().clone());
            reply.send(RemoteNodesList { source, nodes });
        }
    }

    fn answered(&mut self, answer: NoAnswer, _: &mut Cx<'_, Self>) {
        match answer {}
    }

    fn observe(&self) {}
}

struct Fixture {
    universe: Universe,
    probes: MemoryHealth,
    others: Others,
    reachability: Ref<ReachabilityMsg>,
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn address(ip: IpAddr) -> NodeAddress {
    NodeAddress { kind: "InternalIP".to_owned(), ip }
}

/// Node N is at 192.0.2.N, or of many elsewhere, and its health endpoint at 10.N.0.3.
fn entry(number: u16) -> NodeEntry {
    let [high, low] = number.to_be_bytes();
    let router = NodeAddress { kind: "CiliumInternalIP".to_owned(), ip: [10, high, low, 1].into() };
    NodeEntry {
        addresses: vec![address([192, 0, high + 2, low].into()), router],
        health: Addresses { ipv4: Some([10, high, low, 3].into()), ipv6: None },
        ..NodeEntry::default()
    }
}

impl Fixture {
    fn new(others: impl IntoIterator<Item = u16>) -> Self {
        let (universe, fate) = (Universe::default(), Fate::default());
        let probes = MemoryHealth::new(&fate, &MemoryKernel::new(&fate));
        let key = |number| NodeKey { cluster: "default".to_owned(), name: format!("n{number}") };
        let others = others.into_iter().map(|number| (key(number), entry(number))).collect();
        let others: Others = Rc::new(RefCell::new(others));
        let known = Rc::clone(&others);
        let nodes = universe.spawn("nodes", move || FakeNodes(Rc::clone(&known)));
        let port = Rc::new(probes.clone());
        let peers = move || ReachabilityPeers { probes: port.clone(), nodes: Some(nodes.clone()) };
        let settings = ReachabilitySettings {
            key: key(1),
            families: Families { ipv4: true, ipv6: false },
            addresses: ["192.0.2.1", "2001:db8::1"].map(ip).into_iter().collect(),
            health: Addresses { ipv4: Some([10, 0, 1, 3].into()), ipv6: None },
            endpoints: true,
            requests: 3,
            ratio: 0.5,
        };
        let make = Reachability::factory(peers, settings);
        let reachability = universe.spawn("reachability", make);
        let fixture = Self { universe, probes, others, reachability };
        fixture.settle();
        fixture
    }

    fn settle(&self) {
        loop {
            self.universe.settle();
            if !self.probes.step() {
                return;
            }
        }
    }

    /// Time passes, half a second after half a second.
    fn advance(&self, seconds: u64) {
        for _ in 0..seconds * 2 {
            self.universe.advance(Duration::from_millis(500));
            self.settle();
        }
    }

    fn show(&self) -> Arc<ReachabilityView> {
        let patience = Duration::from_secs(60);
        let show = ReachabilityMsg::Show;
        let mut view = self.universe.host.ask(&self.reachability, patience, "test", show);
        self.settle();
        view.now().unwrap().unwrap()
    }

    /// Nodes that are not reached, and why.
    fn unreached(&self) -> Vec<String> {
        let view = self.show();
        let problems = view.nodes.iter();
        problems.filter_map(|it| Some(format!("{}: {}", it.name, it.problem()?))).collect()
    }
}

#[test]
fn a_node_alone_probes_itself_and_its_health_endpoint() {
    let fixture = Fixture::new([]);
    assert_eq!(
        fixture.show().counts(false),
        [("reachable", 0), ("unreachable", 0), ("unknown", 1)]
    );
    fixture.advance(2);
    let view = fixture.show();
    assert_eq!((view.nodes.len(), view.local.as_str(), view.nodes[0].local), (1, "n1", true));
    // The family that is switched off is not probed.
    assert_eq!((view.nodes[0].host.len(), view.nodes[0].endpoint.len()), (1, 1));
    for endpoints in [false, true] {
        assert_eq!(view.counts(endpoints)[0], ("reachable", 1));
    }
    assert_eq!(view.interval, schedule::interval(0.5, 2));
}

#[test]
fn who_does_not_answer_is_named_within_half_a_minute_and_comes_back() {
    let fixture = Fixture::new([2, 3]);
    fixture.advance(30);
    assert_eq!(fixture.unreached(), [""; 0]);
    let gone = [ip("192.0.2.2"), ip("10.0.2.3")];
    fixture.probes.silence(&gone);
    let patience = schedule::named_after(6);
    assert!(patience < Duration::from_secs(30));
    fixture.advance(patience.as_secs() + 1);
    let said = fixture.unreached();
    assert_eq!(said.len(), 1, "{said:?}");
    let expected = "n2: its address 192.0.2.2 does not answer ICMP (Connection timed out)";
    assert!(said[0].starts_with(expected), "{said:?}");
    assert!(said[0].contains("its health endpoint 10.0.2.3"), "{said:?}");
    // HTTP is asked when ICMP says something new: not in the next round, minutes later.
    fixture.advance(15);
    assert!(fixture.unreached()[0].contains("nor HTTP at port 4240 (connection refused)"));
    fixture.probes.silence(&[]);
    fixture.advance(15);
    assert_eq!(fixture.unreached(), [""; 0]);
}

#[test]
fn who_is_away_for_a_moment_is_not_named() {
    let fixture = Fixture::new([2]);
    fixture.advance(30);
    for _ in 0..20 {
        // As an agent and its machine that are not there for less than two seconds.
        fixture.probes.silence(&[ip("192.0.2.2"), ip("10.0.2.3")]);
        fixture.advance(1);
        fixture.probes.silence(&[]);
        for _ in 0..9 {
            fixture.advance(1);
            assert_eq!(fixture.unreached(), [""; 0]);
        }
    }
}

#[test]
fn nodes_that_come_are_probed_and_those_that_go_are_forgotten() {
    let fixture = Fixture::new([2]);
    fixture.probes.silence(&[ip("192.0.2.2"), ip("192.0.2.3")]);
    fixture.advance(40);
    assert_eq!(fixture.unreached().len(), 1);
    let key = |name: &str| NodeKey { cluster: "default".to_owned(), name: name.to_owned() };
    fixture.others.borrow_mut().clear();
    fixture.others.borrow_mut().insert(key("n3"), entry(3));
    fixture.advance(40);
    let said = fixture.unreached();
    assert!(said.len() == 1 && said[0].starts_with("n3: "), "{said:?}");
    // This node is elsewhere from now on.
    fixture.probes.silence(&[ip("192.0.2.77"), ip("10.0.1.9")]);
    let own = Addresses { ipv4: "192.0.2.77".parse().ok(), ipv6: None };
    fixture.reachability.tell(ReachabilityMsg::OwnAddresses(own)).unwrap();
    let health = Addresses { ipv4: "10.0.1.9".parse().ok(), ipv6: None };
    fixture.reachability.tell(ReachabilityMsg::OwnHealth(health)).unwrap();
    fixture.advance(40);
    let said = fixture.unreached();
    assert!(said.len() == 1 && said[0].starts_with("n1: its address 192.0.2.77"), "{said:?}");
}

#[test]
fn a_round_counts_one_latency_of_each_address() {
    let fixture = Fixture::new([2]);
    fixture.probes.silence(&[ip("192.0.2.2")]);
    fixture.advance(schedule::interval(0.5, 4).as_secs() + 30);
    let view = fixture.show();
    let of = |of, protocol| {
        let found = view.latencies.iter().find(|(key, _)| (key.of, key.protocol) == (of, protocol));
        found.map(|(_, histogram)| (histogram.count, histogram.sum.as_secs())).unwrap()
    };
    // One that does not answer counts as ten seconds.
    assert_eq!((of("node", "icmp"), of("endpoint", "http")), ((2, 10), (2, 0)));
}

#[test]
fn as_seldom_as_is_said_http_is_asked() {
    let fixture = Fixture::new([2]);
    fixture.advance(10);
    let host = ip("192.0.2.2");
    assert_eq!(fixture.probes.hellos(host), 1);
    let interval = schedule::interval(0.5, 4).as_secs();
    fixture.advance(interval * 5);
    let asked = fixture.probes.hellos(host);
    assert!((5..=6).contains(&asked), "{asked} in five rounds");
}

#[test]
fn five_thousand_nodes_are_not_flooded() {
    let fixture = Fixture::new(2..5001);
    // All are known by then.
    fixture.advance(25);
    assert_eq!(fixture.unreached(), [""; 0]);
    let before = fixture.probes.echoes();
    fixture.advance(10);
    let sent = fixture.probes.echoes() - before;
    assert!(sent <= 10 * ECHOES_PER_SECOND as usize + 500, "{sent} in 10 s");
    let gone = ip("192.0.17.17");
    fixture.probes.silence(&[gone]);
    fixture.advance(schedule::named_after(10_000).as_secs() + 1);
    assert_eq!(fixture.unreached().len(), 1);
}

#[test]
fn a_crash_forgets_nothing_and_probes_go_on() {
    let fixture = Fixture::new([2]);
    fixture.probes.silence(&[ip("192.0.2.2")]);
    fixture.advance(40);
    let before = fixture.show();
    let _ = fixture.reachability.tell(ReachabilityMsg::Show(crash()));
    fixture.settle();
    assert_eq!(fixture.show().nodes, before.nodes);
    fixture.probes.silence(&[]);
    fixture.advance(15);
    assert_eq!(fixture.unreached(), [""; 0]);
}
