//! Nanoseconds a packet, pod to local pod, itself or by a service: established, both policies and connection tracking
//! included. `cargo run -p volvox-bpf-progs --example packet_cost`, as root.
//!
//! All variants are loaded at once and take turns, so that what else the machine does hits each
//! alike.

#![allow(clippy::print_stdout, reason = "somebody reads what it measured")]

#[path = "../tests/datapath/common/mod.rs"]
mod common;

use common::{
    ACK, Endpoint, Node, SERVICE, TCP, UDP, random_service, sealed, service_address, stay_here,
    tcp, udp,
};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{JoinHandle, spawn};
use volvox_bpf_progs::Features;
use volvox_bpf_progs::layouts::{
    BackendState, ConfigFlags, ConfigRow, Direction, PolicyKey, PolicyRow,
};
use volvox_bpf_progs::measure::{packet_cost, single_cost};
use volvox_bpf_progs::object::FROM_CONTAINER;

const TURNS: usize = 200;
const BATCHES_PER_TURN: usize = 10;
const SINGLES_PER_TURN: usize = 100;
/// Rows of each policy beside those that match.
const OTHER_ROWS: u16 = 30;

const DROPS: u16 = ConfigFlags::DROP_NOTIFY;
const ALL: u16 = DROPS | ConfigFlags::VERDICT_NOTIFY | ConfigFlags::TRACE_NOTIFY;
const ARRIVALS: u16 = ALL | ConfigFlags::AGGREGATE_ARRIVALS;
const CONNECTIONS: u16 = ARRIVALS | ConfigFlags::AGGREGATE_CONNECTIONS;

/// What is compared; nobody listens to any of it.
const VARIANTS: [(&str, u16, bool); 5] = [
    ("drop records only", DROPS, false),
    ("records, connections aggregated", CONNECTIONS, false),
    ("the same, and policy statistics", CONNECTIONS, true),
    ("records, arrivals left out", ARRIVALS, false),
    ("every record", ALL, false),
];

fn main() {
    stay_here();
    let variants = VARIANTS.map(|(name, notify, policy_stats)| {
        let features = Features { policy_stats, ..Features::default() };
        (name, Variant::start(features, notify))
    });
    for (kind, name) in FRAMES.into_iter().enumerate() {
        let mut costs = VARIANTS.map(|_| Vec::new());
        for _ in 0..TURNS {
            for ((_, variant), costs) in variants.iter().zip(&mut costs) {
                costs.extend(variant.take_turn(kind));
            }
        }
        println!("{name}:");
        for ((name, _), costs) in variants.iter().zip(&mut costs) {
            costs.sort_unstable();
            println!("  {name:32} min {}, median {} ns", costs[0], costs[costs.len() / 2]);
        }
    }
    variants.into_iter().for_each(|(_, variant)| variant.end());
}

/// Those by a service are run one by one, because a run leaves the frame with the backend's address;
/// the others once more like them, to compare.
const FRAMES: [&str; 9] = [
    "UDP over IPv4",
    "TCP over IPv4",
    "UDP over IPv6",
    "UDP over IPv4, by a service",
    "TCP over IPv4, by a service",
    "UDP over IPv6, by a service",
    "UDP over IPv4, one by one",
    "TCP over IPv4, one by one",
    "UDP over IPv6, one by one",
];

/// Programs with maps of their own, on a thread in a network namespace of its own.
struct Variant {
    ask: Sender<usize>,
    answers: Receiver<Vec<u64>>,
    thread: JoinHandle<()>,
}

impl Variant {
    fn start(features: Features, notify: u16) -> Self {
        let (ask, asked) = channel();
        let (answer, answers) = channel();
        let thread = spawn(move || serve(features, notify, &asked, &answer));
        Self { ask, answers, thread }
    }

    fn take_turn(&self, kind: usize) -> Vec<u64> {
        self.ask.send(kind).expect("the variant's thread lives");
        self.answers.recv().expect("the variant's thread answers")
    }

    fn end(self) {
        drop(self.ask);
        self.thread.join().expect("the variant's thread ends well");
    }
}

fn serve(features: Features, notify: u16, asked: &Receiver<usize>, answer: &Sender<Vec<u64>>) {
    let mut node = Node::with(features);
    let (a, b) = (node.endpoint(1), node.endpoint(2));
    for endpoint in [&a, &b] {
        let flags = ConfigFlags::SOURCE_CHECK | notify;
        node.configure(ConfigRow { flags, ..endpoint.config() });
    }
    node.rules(&a, &policy(Direction::Egress, &b));
    node.rules(&b, &policy(Direction::Ingress, &a));
    for (id, at) in [(1, b.v4()), (2, b.v6())] {
        node.backend(id, (at, 80).into(), 0, BackendState::Active);
        for protocol in [TCP, UDP] {
            let frontend = (service_address(at), 8080).into();
            node.service(frontend, protocol, random_service(SERVICE), &[id]);
        }
    }
    let [service4, service6] = [a.v4(), a.v6()].map(service_address);
    let mut frames = [
        udp(a.v4(), b.v4(), 1000, 80),
        tcp(a.v4(), b.v4(), 1000, 80, ACK),
        udp(a.v6(), b.v6(), 1000, 80),
        udp(a.v4(), service4, 1001, 8080),
        tcp(a.v4(), service4, 1001, 8080, ACK),
        udp(a.v6(), service6, 1001, 8080),
    ]
    .map(sealed);
    for (frame, hop_limit) in frames.iter_mut().zip([22, 22, 21, 22, 22, 21]) {
        frame[hop_limit] = 255;
    }
    for kind in asked {
        let program = node.program(FROM_CONTAINER);
        let (frame, single) = (&frames[kind % frames.len()], kind >= frames.len() / 2);
        let costs = if single {
            single_cost(program, a.ifindex, frame, SINGLES_PER_TURN)
        } else {
            packet_cost(program, a.ifindex, frame, BATCHES_PER_TURN)
        };
        answer.send(costs.expect("the interface exists")).expect("somebody asked");
    }
    assert_eq!(node.drops().values().sum::<u64>(), 0, "a drop was measured");
}

/// One rule for the peer's TCP and UDP port 80, a wildcard deny elsewhere, and rows for others.
fn policy(direction: Direction, peer: &Endpoint) -> Vec<(PolicyKey, PolicyRow)> {
    let others =
        (0..OTHER_ROWS).map(|n| PolicyKey::ports(direction, 20_000 + u32::from(n), 6, 443, 16));
    let own = [6, 17].map(|protocol| PolicyKey::ports(direction, peer.identity, protocol, 80, 16));
    let mut rows: Vec<_> = others.chain(own).map(|key| (key, PolicyRow::allow(&key, 1))).collect();
    let denied = PolicyKey::ports(direction, 0, 6, 22, 16);
    rows.push((denied, PolicyRow::deny(&denied, 2)));
    rows
}
