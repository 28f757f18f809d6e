//! A packet that both policies allow reaches a local endpoint, or the stack for everywhere else.

use crate::common::*;
use aya::maps::HashMap;
use std::net::IpAddr;
use volvox_bpf_progs::layouts::*;

/// Rows that allow everything in both directions.
fn open() -> Vec<(PolicyKey, PolicyRow)> {
    [Direction::Egress, Direction::Ingress]
        .map(|direction| PolicyKey::any(direction, 0))
        .map(|key| (key, PolicyRow::allow(&key, 1)))
        .to_vec()
}

#[test]
fn a_local_receiver_gets_the_packet_on_its_link() {
    let mut node = Node::new();
    let (a, b) = (node.endpoint(1), node.endpoint(2));
    node.rules(&a, &open());
    node.rules(&b, &open());
    for (src, dst) in [(a.v4(), b.v4()), (a.v6(), b.v6())] {
        let sent = udp(src, dst, 1000, 80);
        let got = node.send(&a, &sent);
        assert_eq!(got.action, REDIRECT, "{src}");
        assert_eq!(got.frame, delivered(sent, &b));
    }
}

#[test]
fn what_is_not_local_goes_to_the_stack_with_the_senders_identity() {
    let mut node = Node::new();
    let a = node.endpoint(1);
    node.rules(&a, &open());
    for dst in ["192.0.2.7", "2001:db8::7"] {
        let dst: IpAddr = dst.parse().unwrap();
        let sent = udp(a.ip(dst), dst, 1000, 80);
        let got = node.send(&a, &sent);
        assert_eq!((got.action, got.frame), (OK, sent));
        assert_eq!(got.mark, a.identity << 16 | 0x0f00);
    }
}

#[test]
fn the_last_hop_is_left_to_the_stack_to_answer() {
    let mut node = Node::new();
    let (a, b) = (node.endpoint(1), node.endpoint(2));
    node.rules(&a, &open());
    for (dst, hop_limit) in [(b.v4(), 22), (b.v6(), 21)] {
        let mut sent = udp(a.ip(dst), dst, 1000, 80);
        sent[hop_limit] = 1;
        let got = node.send(&a, &sent);
        assert_eq!((got.action, got.frame), (OK, sent), "the receiver's policy was not even asked");
    }
}

#[test]
fn nothing_passes_before_the_receiver_is_ready() {
    let mut node = Node::new();
    let (a, b) = (node.endpoint(1), node.endpoint(2));
    node.rules(&a, &open());
    node.rules(&b, &open());
    node.configure(ConfigRow { ep_id: 3, ..b.config() });
    assert_eq!(
        node.drop_of(|node| node.send(&a, &udp(a.v4(), b.v4(), 1, 2))),
        Some(203),
        "another's interface"
    );
    node.configure(ConfigRow { policy_slot: policy_slot(b.id, 1), ..b.config() });
    assert_eq!(
        node.drop_of(|node| node.send(&a, &udp(a.v4(), b.v4(), 1, 2))),
        Some(203),
        "no policy there"
    );
    node.configure(b.config());
    assert_eq!(node.drop_of(|node| node.send(&a, &udp(a.v4(), b.v4(), 1, 2))), None);
}

#[test]
fn a_row_that_is_not_the_interfaces_own_is_not_used() {
    let mut node = Node::new();
    let (a, b) = (node.endpoint(1), node.endpoint(2));
    node.rules(&a, &open());
    node.rules(&b, &open());
    // As a reader sees it while the row's memory is given to another interface.
    node.map::<HashMap<_, u32, ConfigRow>>("volvox_config", |mut map| {
        map.insert(a.ifindex, b.config(), 0).unwrap();
    });
    assert_eq!(node.drop_of(|node| node.send(&a, &udp(b.v4(), a.v4(), 1, 2))), Some(203));
}

#[test]
fn an_interface_without_configuration_passes_nothing() {
    let mut node = Node::new();
    let (a, b) = (node.interface(1), node.endpoint(2));
    node.rules(&b, &open());
    let out = udp(a.v4(), b.v4(), 1, 2);
    assert_eq!(node.drop_of(|node| node.send(&a, &out)), Some(203));
    let back = udp(b.v4(), a.v4(), 1, 2);
    assert_eq!(node.drop_of(|node| node.deliver(&a, 0, &back)), Some(203));
}
