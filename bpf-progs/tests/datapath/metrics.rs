//! `cilium_metrics` and `cilium_policystats`: every packet is counted once.

use crate::common::*;
use aya::maps::PerCpuHashMap;
use std::collections::BTreeMap;
use volvox_bpf_progs::Features;
use volvox_bpf_progs::layouts::*;

const INGRESS: u8 = MetricsDirection::Ingress as u8;
const EGRESS: u8 = MetricsDirection::Egress as u8;

fn open(direction: Direction) -> (PolicyKey, PolicyRow) {
    let key = PolicyKey::any(direction, 0);
    (key, PolicyRow::allow(&key, 0))
}

#[test]
fn packets_and_bytes_are_counted_by_reason_and_direction() {
    let mut node = Node::new();
    let (a, b) = (node.endpoint(1), node.endpoint(2));
    node.rules(&a, &[open(Direction::Egress)]);
    node.rules(&b, &[open(Direction::Ingress)]);
    let local = udp(a.v4(), b.v4(), 1, 2);
    let away = udp(a.v6(), "2001:db8::1".parse().unwrap(), 1, 2);
    for _ in 0..3 {
        node.send(&a, &local);
    }
    node.send(&a, &away);
    node.deliver(&b, 0, &local);
    node.send(&b, &udp(a.v4(), b.v4(), 1, 2));
    node.rules(&b, &[]);
    node.send(&a, &udp(a.v4(), b.v4(), 3, 2));
    let bytes = local.len() as u64;
    let expected = BTreeMap::from([
        ((0, INGRESS), (4, 4 * bytes)),
        ((0, EGRESS), (1, away.len() as u64)),
        ((132, EGRESS), (1, bytes)),
        ((133, INGRESS), (1, bytes)),
    ]);
    assert_eq!(node.metrics(), expected);
}

#[test]
fn a_drop_names_the_line_that_dropped() {
    let mut node = Node::new();
    let a = node.endpoint(1);
    node.send(&a, &udp(a.v4(), "192.0.2.1".parse().unwrap(), 1, 2));
    node.map::<PerCpuHashMap<_, MetricsKey, MetricsRow>>("cilium_metrics", |map| {
        let keys: Vec<_> = map.keys().map(Result::unwrap).collect();
        assert_eq!(keys.len(), 1);
        assert_eq!(volvox_bpf_progs::drop_reason::source_file(keys[0].file), Some("policy.h"));
        assert!(keys[0].line > 0);
    });
}

#[test]
fn policy_rows_are_counted_when_asked_for() {
    let mut node = Node::with(Features { policy_stats: true, ..Features::default() });
    let (a, b) = (node.endpoint(1), node.endpoint(2));
    let range = PolicyKey::ports(Direction::Egress, b.identity, UDP, 80, 12);
    node.rules(&a, &[(range, PolicyRow::allow(&range, 0))]);
    node.rules(&b, &[open(Direction::Ingress)]);
    for port in [81, 82] {
        node.send(&a, &udp(a.v4(), b.v4(), 1, port));
    }
    let mut sums = BTreeMap::new();
    node.map::<PerCpuHashMap<_, PolicyStatsKey, PolicyStatsRow>>("cilium_policystats", |map| {
        for entry in map.iter() {
            let (key, rows) = entry.unwrap();
            sums.insert(key, rows.iter().map(|row| row.packets).sum::<u64>());
        }
    });
    let sent = PolicyStatsKey {
        ep_id: a.id,
        prefix_len: 20,
        identity: b.identity,
        egress: 1,
        protocol: UDP,
        port: Be16::new(80),
        ..PolicyStatsKey::default()
    };
    let heard = PolicyStatsKey { ep_id: b.id, ..PolicyStatsKey::default() };
    assert_eq!(sums, BTreeMap::from([(sent, 2), (heard, 2)]));
}
