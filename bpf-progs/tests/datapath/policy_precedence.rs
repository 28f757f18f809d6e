//! Which of two matching rows decides: the higher precedence, then the longer prefix, then the peer.

use crate::common::*;
use volvox_bpf_progs::layouts::*;

const PASS: Option<u8> = None;
const DENIED: Option<u8> = Some(181);

/// Sends one packet from a to b, TCP port 80, under these egress rows.
fn verdict(rows: impl Fn(&Endpoint) -> Vec<(PolicyKey, PolicyRow)>) -> Option<u8> {
    let mut node = Node::new();
    let (a, b) = (node.endpoint(1), node.endpoint(2));
    let all = PolicyKey::any(Direction::Ingress, 0);
    node.rules(&b, &[(all, PolicyRow::allow(&all, 0))]);
    node.rules(&a, &rows(&b));
    node.drop_of(|node| node.send(&a, &tcp(a.v4(), b.v4(), 1, 80, SYN)))
}

fn egress(identity: u32) -> PolicyKey {
    PolicyKey::any(Direction::Egress, identity)
}

fn port_80(identity: u32) -> PolicyKey {
    PolicyKey::ports(Direction::Egress, identity, TCP, 80, 16)
}

fn allow(key: PolicyKey) -> (PolicyKey, PolicyRow) {
    (key, PolicyRow::allow(&key, 1))
}

fn deny(key: PolicyKey) -> (PolicyKey, PolicyRow) {
    (key, PolicyRow::deny(&key, 2))
}

#[test]
fn each_kind_of_wildcard_matches() {
    assert_eq!(verdict(|b| vec![allow(egress(b.identity))]), PASS, "peer");
    assert_eq!(verdict(|b| vec![allow(port_80(b.identity))]), PASS, "peer and port");
    assert_eq!(verdict(|_| vec![allow(port_80(0))]), PASS, "port");
    assert_eq!(verdict(|_| vec![allow(egress(0))]), PASS, "everything");
    assert_eq!(
        verdict(|b| vec![allow(PolicyKey::protocol(Direction::Egress, b.identity, TCP))]),
        PASS
    );
    assert_eq!(
        verdict(|_| vec![allow(PolicyKey::protocol(Direction::Egress, 0, TCP))]),
        PASS,
        "protocol"
    );
    assert_eq!(verdict(|_| vec![allow(PolicyKey::protocol(Direction::Egress, 0, UDP))]), Some(133));
}

#[test]
fn a_deny_wins_wherever_it_stands() {
    assert_eq!(verdict(|b| vec![allow(port_80(b.identity)), deny(egress(0))]), DENIED);
    assert_eq!(verdict(|b| vec![allow(egress(0)), deny(port_80(b.identity))]), DENIED);
    assert_eq!(verdict(|b| vec![allow(egress(b.identity)), deny(port_80(0))]), DENIED);
    assert_eq!(verdict(|b| vec![deny(egress(b.identity)), allow(port_80(0))]), DENIED);
}

#[test]
fn a_higher_priority_beats_a_deny() {
    let low =
        |key: PolicyKey| (key, PolicyRow { precedence: 0x0000_01ff, ..PolicyRow::deny(&key, 2) });
    assert_eq!(verdict(|b| vec![allow(port_80(b.identity)), low(egress(0))]), PASS);
    assert_eq!(verdict(|b| vec![low(port_80(b.identity)), allow(egress(0))]), PASS);
}

/// A row whose verdict tells which row decided: it asks for a proxy, or for authentication.
fn marked(key: PolicyKey, row: PolicyRow) -> (PolicyKey, PolicyRow) {
    (key, PolicyRow { precedence: 0x100, ..row })
}

#[test]
fn of_equal_precedence_the_longer_prefix_decides_then_the_peer() {
    let proxy =
        |key| marked(key, PolicyRow { proxy_port: Be16::new(10_000), ..PolicyRow::allow(&key, 3) });
    let auth = |key| marked(key, PolicyRow { auth: 1, ..PolicyRow::allow(&key, 4) });
    assert_eq!(
        verdict(|b| vec![proxy(egress(b.identity)), auth(port_80(0))]),
        Some(189),
        "longer, of all peers"
    );
    assert_eq!(
        verdict(|b| vec![proxy(port_80(b.identity)), auth(egress(0))]),
        Some(180),
        "longer, of the peer"
    );
    assert_eq!(
        verdict(|b| vec![proxy(port_80(b.identity)), auth(port_80(0))]),
        Some(180),
        "a tie is the peer's"
    );
}

#[test]
fn what_cannot_be_done_fails_closed() {
    let all = egress(0);
    let row = PolicyRow::allow(&all, 1);
    assert_eq!(verdict(|_| vec![(all, PolicyRow { proxy_port: Be16::new(1), ..row })]), Some(180));
    assert_eq!(verdict(|_| vec![(all, PolicyRow { auth: 1, ..row })]), Some(189));
    assert_eq!(verdict(|_| vec![(all, PolicyRow { auth: 0x80, ..row })]), PASS, "explicitly none");
}
