//! Nanoseconds a packet, pod to local pod: established, both policies and connection tracking
//! included. `cargo run --release -p volvox-bpf-progs --example packet_cost`, as root.

#[path = "../tests/common/mod.rs"]
mod common;

use common::{ACK, Endpoint, Node, tcp, udp};
use volvox_bpf_progs::Features;
use volvox_bpf_progs::layouts::{ConfigFlags, ConfigRow, Direction, PolicyKey, PolicyRow};
use volvox_bpf_progs::measure::{RUNS_PER_BATCH, packet_cost};
use volvox_bpf_progs::object::FROM_CONTAINER;

const BATCHES: usize = 2000;
/// Rows of each policy beside those that match.
const OTHER_ROWS: u16 = 30;

fn main() {
    measure("no records but drops", Features::default(), ConfigFlags::DROP_NOTIFY);
    let all = ConfigFlags::DROP_NOTIFY | ConfigFlags::VERDICT_NOTIFY | ConfigFlags::TRACE_NOTIFY;
    measure("every record, no listener", Features::default(), all);
    let stats = Features { policy_stats: true, ..Features::default() };
    measure("policy statistics", stats, ConfigFlags::DROP_NOTIFY);
}

fn measure(what: &str, features: Features, notify: u16) {
    let mut node = Node::with(features);
    let (a, b) = (node.endpoint(1), node.endpoint(2));
    for endpoint in [&a, &b] {
        node.configure(ConfigRow {
            flags: ConfigFlags::SOURCE_CHECK | notify,
            ..endpoint.config()
        });
    }
    node.rules(&a, &policy(Direction::Egress, &b));
    node.rules(&b, &policy(Direction::Ingress, &a));
    let frames = [
        ("UDP over IPv4", 22, udp(a.v4(), b.v4(), 1000, 80)),
        ("TCP over IPv4", 22, tcp(a.v4(), b.v4(), 1000, 80, ACK)),
        ("UDP over IPv6", 21, udp(a.v6(), b.v6(), 1000, 80)),
    ];
    println!("{what}:");
    for (kind, hop_limit, mut frame) in frames {
        frame[hop_limit] = 255;
        let program = node.ebpf.program(FROM_CONTAINER).expect("it is in the object");
        let program = program.try_into().expect("it is a classifier");
        let mut costs =
            packet_cost(program, a.ifindex, &frame, BATCHES).expect("the interface exists");
        costs.sort_unstable();
        let (least, most) = (costs[0], costs[BATCHES - 1]);
        println!(
            "  {kind}: median {} ns, min {least}, max {most} ({BATCHES} x {RUNS_PER_BATCH})",
            costs[BATCHES / 2]
        );
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
