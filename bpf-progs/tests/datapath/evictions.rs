//! Any row may be evicted. Of every kind of live flow each single row of each map is taken away, and packets of both
//! directions come again: they get what they got before, or they drop. None has another address.

use crate::common::outside::{World, open_service, route_outside};
use crate::common::rows::{Rows, bring_back, rows_of};
use crate::common::*;
use std::net::IpAddr;
use volvox_bpf_progs::Features;
use volvox_bpf_progs::layouts::*;

/// Ports of an opener: one that may stand for others', one that may not, and what one asks for.
const HIGH: u16 = 45_001;
const LOW: u16 = 1000;
const PORT: u16 = 8080;
const NODE_PORT: u16 = 30_080;

/// Whose rows say what is served, and by which devices: without one that is something else.
const CONFIGURED: [&str; 7] = [
    "volvox_device",
    "cilium_lb4_services_v2",
    "cilium_lb6_services_v2",
    "cilium_lb4_backends_v3",
    "cilium_lb6_backends_v3",
    "volvox_lb4_members",
    "volvox_lb6_members",
];

/// Without a row of these a datagram may be the first of its flow.
const OF_FLOWS: [&str; 3] = ["cilium_ct_any4_global", "cilium_ct_any6_global", "cilium_lxc"];

/// Where a packet comes from.
#[derive(Clone, Copy)]
enum From {
    /// An endpoint; it may leave by the device.
    Pod(Endpoint),
    /// The wire.
    Wire,
    /// The node itself.
    Host,
}

/// A packet of a flow.
#[derive(Clone)]
struct Step {
    from: From,
    frame: Vec<u8>,
}

struct Flow {
    name: String,
    /// Datagrams do not say what they are: one that no entry knows is the first of a flow. That of a server which
    /// was asked at its own address, or by a service from outside, then is another flow than the client's.
    may_begin_anew: bool,
    forth: Step,
    back: Step,
}

/// What becomes of a packet: nothing, or the ends that it has then.
#[derive(Debug, PartialEq, Eq)]
enum Became {
    Dropped,
    Passed(Ends),
}

/// What becomes of a packet, to whom the stack sends it included.
fn run(world: &mut World, pods: &[Endpoint], step: &Step) -> Became {
    let up = world.up;
    let mut got = match step.from {
        From::Pod(pod) => {
            let got = world.node.send(&pod, &step.frame);
            let to = ends_of(&got.frame).to.0;
            match pods.iter().find(|pod| pod.ip(to) == to) {
                _ if got.action != OK => got,
                Some(pod) => world.node.deliver(pod, got.mark, &got.frame),
                None => world.node.emit(&up, got.mark, &got.frame),
            }
        }
        From::Wire => world.node.receive(&up, &step.frame),
        From::Host => world.node.emit(&up, 0, &step.frame),
    };
    if got.action == SHOT {
        return Became::Dropped;
    }
    unwrapped(&mut got.frame);
    Became::Passed(ends_of(&got.frame))
}

/// Takes the option away that tells a backend what was asked.
fn unwrapped(frame: &mut Vec<u8>) {
    if is_told(frame) {
        frame.drain(if frame[12..14] == [8, 0] { 34..42 } else { 54..78 });
    }
}

/// A node where everybody may speak with everybody: policy hides nothing.
struct Open {
    world: World,
    pods: Vec<Endpoint>,
    flows: Vec<Flow>,
    /// What flows have had of ports so far, so that no two have the same ends.
    ports: u16,
}

impl Open {
    fn new(features: Features) -> Self {
        let mut world = World::with(features);
        route_outside();
        let mut pods = vec![world.a];
        pods.extend([2, 3, 4].map(|id| world.node.endpoint(id)));
        for pod in &pods {
            world.node.rules(pod, &[everything(Direction::Egress), everything(Direction::Ingress)]);
        }
        Self { world, pods, flows: Vec::new(), ports: 0 }
    }

    /// The packets that begin a flow, and those with which it goes on: from its opener, whose ends are known, to
    /// where it asks, and back from where that leads.
    fn flow(&mut self, name: &str, protocol: u8, opener: From, ends: [(IpAddr, u16); 2]) {
        let [mut source, asked] = ends;
        source.1 += self.ports;
        self.ports += 1;
        let name = format!("{name}, {protocol}, {} to {}", source.0, asked.0);
        let forth = |flags| Step { from: opener, frame: packet(protocol, source, asked, flags) };
        let Became::Passed(heard) = run(&mut self.world, &self.pods, &forth(SYN)) else {
            panic!("{name} is dropped: {:?}", self.world.node.drops())
        };
        let responder = match self.pods.iter().find(|pod| pod.ip(asked.0) == heard.to.0) {
            Some(pod) => From::Pod(*pod),
            None if heard.to.0 == self.world.up.ip(asked.0) => From::Host,
            None => From::Wire,
        };
        let (mut from, mut to) = (heard.to, heard.from);
        if matches!(protocol, ICMP | ICMPV6) {
            (from.1, to.1) = (0, heard.identifier);
        }
        let back = |flags| Step { from: responder, frame: answer(protocol, from, to, flags) };
        for step in [back(SYN | ACK), forth(ACK), back(ACK)] {
            assert!(run(&mut self.world, &self.pods, &step) != Became::Dropped, "{name} lives");
        }
        let may_begin_anew =
            protocol == UDP && matches!((opener, responder), (From::Wire, From::Pod(_)));
        self.flows.push(Flow { name, may_begin_anew, forth: forth(ACK), back: back(ACK) });
    }

    /// A flow whose answers do not come by here.
    fn one_way(&mut self, name: &str, protocol: u8, ends: [(IpAddr, u16); 2]) {
        let name = format!("{name}, {protocol}, {} to {}", ends[0].0, ends[1].0);
        let forth =
            |flags| Step { from: From::Wire, frame: packet(protocol, ends[0], ends[1], flags) };
        for flags in [SYN, ACK] {
            assert!(run(&mut self.world, &self.pods, &forth(flags)) != Became::Dropped, "{name}");
        }
        let (forth, back) = (forth(ACK), forth(ACK));
        self.flows.push(Flow { name, may_begin_anew: false, forth, back });
    }

    /// A flow to an endpoint here of which another node has told what the client asked. Each datagram tells.
    fn reported(
        &mut self,
        name: &str,
        protocol: u8,
        ends: [(IpAddr, u16); 2],
        asked: (IpAddr, u16),
    ) {
        let [source, pod] = ends;
        let name = format!("{name}, {protocol}, {} to {}", source.0, pod.0);
        let forth = |flags| {
            let plain = packet(protocol, source, pod, flags);
            let is_told = protocol == UDP || flags == SYN;
            Step {
                from: From::Wire,
                frame: if is_told { reported(plain, asked.into()) } else { plain },
            }
        };
        let from = From::Pod(self.world.a);
        let back = |flags| Step { from, frame: packet(protocol, pod, source, flags) };
        for step in [forth(SYN), back(SYN | ACK), forth(ACK)] {
            assert!(run(&mut self.world, &self.pods, &step) != Became::Dropped, "{name}");
        }
        let may_begin_anew = protocol == UDP;
        self.flows.push(Flow { name, may_begin_anew, forth: forth(ACK), back: back(ACK) });
    }

    /// All ports of a service, and those behind it.
    fn serve(&mut self, at: (IpAddr, u16), number: u16, row: LbRow, backends: &[(IpAddr, u16)]) {
        let first = 16 * u32::from(number) + if at.0.is_ipv4() { 0 } else { 8 };
        let ids: Vec<u32> = (first..).take(backends.len()).collect();
        for (id, backend) in ids.iter().zip(backends) {
            self.world.node.backend(*id, (*backend).into(), 0, BackendState::Active);
        }
        for protocol in [TCP, UDP] {
            self.world.node.service(at.into(), protocol, row, &ids);
        }
    }

    /// Takes away each row of each flow in turn. Returns what then went wrong.
    fn faults(&mut self) -> Vec<String> {
        let (maps, mut faults, mut tried) = (Rows::all(PINS), Vec::new(), 0);
        let rows = rows_of(&maps);
        for flow in std::mem::take(&mut self.flows) {
            bring_back(&maps, &rows);
            let right =
                [&flow.forth, &flow.back].map(|step| run(&mut self.world, &self.pods, step));
            assert!(!right.contains(&Became::Dropped), "{} lives", flow.name);
            for (at, key, value) in
                rows.iter().filter(|row| !CONFIGURED.contains(&maps[row.0].name))
            {
                for order in [[0, 0, 1], [1, 0, 1]] {
                    bring_back(&maps, &rows);
                    maps[*at].delete(key);
                    for (place, which) in order.into_iter().enumerate() {
                        let step = [&flow.forth, &flow.back][which];
                        let became = run(&mut self.world, &self.pods, step);
                        tried += 1;
                        if became == Became::Dropped || became == right[which] {
                            continue;
                        }
                        if flow.may_begin_anew && OF_FLOWS.contains(&maps[*at].name) {
                            continue;
                        }
                        let map = maps[*at].name;
                        faults.push(format!(
                            "{}: without {map} {key:?} {value:?}, {order:?}[{place}]: {became:?}, not {:?}",
                            flow.name, right[which]
                        ));
                    }
                }
            }
        }
        assert!(tried > rows.len(), "{tried} packets, {} rows", rows.len());
        faults
    }
}

fn packet(protocol: u8, from: (IpAddr, u16), to: (IpAddr, u16), flags: u8) -> Vec<u8> {
    sealed(match protocol {
        TCP => tcp(from.0, to.0, from.1, to.1, flags),
        UDP => udp(from.0, to.0, from.1, to.1),
        _ => echo(from.0, to.0, from.1, false),
    })
}

fn answer(protocol: u8, from: (IpAddr, u16), to: (IpAddr, u16), flags: u8) -> Vec<u8> {
    match protocol {
        ICMP | ICMPV6 => sealed(echo(from.0, to.0, to.1, true)),
        _ => packet(protocol, from, to, flags),
    }
}

/// Echoes of the family that an address has.
fn ping(like: IpAddr) -> u8 {
    if like.is_ipv4() { ICMP } else { ICMPV6 }
}

/// An address of another node's endpoint.
fn elsewhere(like: IpAddr, number: u16) -> IpAddr {
    let text =
        if like.is_ipv4() { format!("10.2.0.{number}") } else { format!("f00d:2::{number}") };
    text.parse().unwrap()
}

#[test]
fn flows_of_endpoints() {
    let mut open = Open::new(Features::default());
    let (a, pods) = (open.world.a, open.pods.clone());
    for (near, own, far) in open.world.families() {
        let asker = From::Pod(a);
        for protocol in [TCP, UDP, ping(near)] {
            open.flow("direct", protocol, asker, [(near, HIGH), (pods[1].ip(near), PORT)]);
            open.flow("from outside", protocol, From::Wire, [(far, HIGH), (near, PORT)]);
            open.flow("masqueraded", protocol, asker, [(near, HIGH), (far, 443)]);
            open.flow("masqueraded, another port", protocol, asker, [(near, LOW), (far, 443)]);
            open.flow("of the node", protocol, From::Host, [(own, HIGH), (far, 443)]);
            open.flow("to the node", protocol, From::Wire, [(far, HIGH), (own, 443)]);
        }
        let service = service_address(near);
        let local: Vec<_> = pods[1..].iter().map(|pod| (pod.ip(near), PORT)).collect();
        open.serve((service, 80), 1, random_service(1), &local);
        open.serve((service, 81), 2, random_service(2), &[(near, PORT)]);
        let outside: Vec<_> = [7, 8, 9].map(|number| (elsewhere(near, number), PORT)).to_vec();
        open.serve((service, 82), 3, random_service(3), &outside);
        open.serve((own, NODE_PORT), 4, open_service(4), &outside);
        open.serve((own, NODE_PORT + 1), 5, open_service(5), &local);
        for protocol in [TCP, UDP] {
            open.flow("service", protocol, asker, [(near, HIGH), (service, 80)]);
            open.flow("loopback", protocol, asker, [(near, HIGH), (service, 81)]);
            open.flow("service outside", protocol, asker, [(near, HIGH), (service, 82)]);
            open.flow("node port", protocol, From::Wire, [(far, HIGH), (own, NODE_PORT)]);
            open.flow("node port here", protocol, From::Wire, [(far, HIGH), (own, NODE_PORT + 1)]);
        }
    }
    let faults = open.faults();
    assert!(faults.is_empty(), "{} faults: {faults:#?}", faults.len());
}

#[test]
fn flows_of_the_node_with_a_policy() {
    let mut open = Open::new(host_firewall());
    open.world.node.host_rules(&[everything(Direction::Egress), everything(Direction::Ingress)]);
    for (near, own, far) in open.world.families() {
        for protocol in [TCP, UDP, ping(own)] {
            open.flow("of the node", protocol, From::Host, [(own, HIGH), (far, 443)]);
            open.flow("of the node, by a low port", protocol, From::Host, [(own, LOW), (far, 443)]);
            open.flow("to the node", protocol, From::Wire, [(far, HIGH), (own, 443)]);
            open.flow("to a high port", protocol, From::Wire, [(far, HIGH), (own, 40_000)]);
            open.flow("masqueraded", protocol, From::Pod(open.world.a), [(near, HIGH), (far, 443)]);
        }
    }
    let faults = open.faults();
    assert!(faults.is_empty(), "{} faults: {faults:#?}", faults.len());
}

#[test]
fn flows_that_backends_answer_directly() {
    let mut open = Open::new(dsr());
    for (near, own, far) in open.world.families() {
        let there = elsewhere(near, 7);
        open.world.node.behind(there, 777, [192, 0, 2, 254], false);
        open.serve((own, NODE_PORT), 4, open_service(4), &[(there, PORT)]);
        open.serve((own, NODE_PORT + 1), 5, open_service(5), &[(near, PORT)]);
        for protocol in [TCP, UDP] {
            open.one_way("by this node", protocol, [(far, HIGH), (own, NODE_PORT)]);
            open.flow("node port here", protocol, From::Wire, [(far, HIGH), (own, NODE_PORT + 1)]);
            open.reported(
                "by another node",
                protocol,
                [(far, HIGH), (near, PORT)],
                (own, NODE_PORT),
            );
        }
    }
    let faults = open.faults();
    assert!(faults.is_empty(), "{} faults: {faults:#?}", faults.len());
}
