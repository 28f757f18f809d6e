//! Both policies on the way: the sender's egress and the receiver's ingress.

use crate::common::*;
use std::net::IpAddr;
use volvox_bpf_progs::layouts::*;

const DENIED: Option<u8> = Some(133);
const DENIED_BY_RULE: Option<u8> = Some(181);

fn allow(key: PolicyKey) -> (PolicyKey, PolicyRow) {
    (key, PolicyRow::allow(&key, 7))
}

fn deny(key: PolicyKey) -> (PolicyKey, PolicyRow) {
    (key, PolicyRow::deny(&key, 8))
}

fn any(direction: Direction) -> (PolicyKey, PolicyRow) {
    allow(PolicyKey::any(direction, 0))
}

/// Two endpoints, and the families in which they are tried.
fn pair() -> (Node, Endpoint, Endpoint, [(IpAddr, IpAddr); 2]) {
    let mut node = Node::new();
    let (a, b) = (node.endpoint(1), node.endpoint(2));
    let ways = [(a.v4(), b.v4()), (a.v6(), b.v6())];
    (node, a, b, ways)
}

#[test]
fn without_a_row_nothing_leaves() {
    let (mut node, a, b, ways) = pair();
    node.rules(&b, &[any(Direction::Ingress)]);
    for (src, dst) in ways {
        assert_eq!(node.drop_of(|node| node.send(&a, &udp(src, dst, 1, 80))), DENIED);
    }
}

#[test]
fn without_a_row_nothing_enters() {
    let (mut node, a, b, ways) = pair();
    node.rules(&a, &[any(Direction::Egress)]);
    for (src, dst) in ways {
        assert_eq!(node.drop_of(|node| node.send(&a, &udp(src, dst, 1, 80))), DENIED);
        assert_eq!(node.drop_of(|node| node.deliver(&b, 0, &udp(src, dst, 2, 80))), DENIED);
    }
}

#[test]
fn the_directions_do_not_mix() {
    let (mut node, a, b, ways) = pair();
    node.rules(&a, &[any(Direction::Ingress)]);
    node.rules(&b, &[any(Direction::Egress)]);
    for (src, dst) in ways {
        assert_eq!(node.drop_of(|node| node.send(&a, &udp(src, dst, 1, 80))), DENIED);
        assert_eq!(node.drop_of(|node| node.deliver(&b, 0, &udp(src, dst, 1, 80))), DENIED);
    }
}

#[test]
fn a_rule_speaks_of_its_peer_protocol_and_port_only() {
    let (mut node, a, b, ways) = pair();
    let c = node.endpoint(3);
    node.rules(&b, &[any(Direction::Ingress)]);
    node.rules(&c, &[any(Direction::Ingress)]);
    node.rules(&a, &[allow(PolicyKey::ports(Direction::Egress, b.identity, UDP, 80, 16))]);
    for (src, dst) in ways {
        assert_eq!(node.drop_of(|node| node.send(&a, &udp(src, dst, 1, 80))), None);
        assert_eq!(
            node.drop_of(|node| node.send(&a, &udp(src, dst, 1, 81))),
            DENIED,
            "another port"
        );
        assert_eq!(
            node.drop_of(|node| node.send(&a, &tcp(src, dst, 1, 80, SYN))),
            DENIED,
            "another protocol"
        );
        assert_eq!(
            node.drop_of(|node| node.send(&a, &udp(src, c.ip(dst), 1, 80))),
            DENIED,
            "another peer"
        );
    }
}

#[test]
fn a_deny_at_either_end_drops() {
    let (mut node, a, b, ways) = pair();
    let out = PolicyKey::ports(Direction::Egress, b.identity, UDP, 81, 16);
    let into = PolicyKey::ports(Direction::Ingress, a.identity, UDP, 82, 16);
    node.rules(&a, &[any(Direction::Egress), deny(out)]);
    node.rules(&b, &[any(Direction::Ingress), deny(into)]);
    for (src, dst) in ways {
        assert_eq!(node.drop_of(|node| node.send(&a, &udp(src, dst, 1, 80))), None);
        assert_eq!(node.drop_of(|node| node.send(&a, &udp(src, dst, 1, 81))), DENIED_BY_RULE);
        assert_eq!(node.drop_of(|node| node.send(&a, &udp(src, dst, 1, 82))), DENIED_BY_RULE);
    }
}

#[test]
fn policy_holds_for_connections_that_exist() {
    let (mut node, a, b, ways) = pair();
    node.rules(&b, &[any(Direction::Ingress)]);
    for (src, dst) in ways {
        node.rules(&a, &[any(Direction::Egress)]);
        assert_eq!(node.drop_of(|node| node.send(&a, &udp(src, dst, 1, 80))), None);
        node.rules(&a, &[]);
        assert_eq!(node.drop_of(|node| node.send(&a, &udp(src, dst, 1, 80))), DENIED);
    }
}

#[test]
fn one_config_row_flips_the_policy() {
    let (mut node, a, b, ways) = pair();
    node.rules(&a, &[any(Direction::Egress)]);
    node.rules(&b, &[any(Direction::Ingress)]);
    node.policy(policy_slot(a.id, 1), &[]);
    for (src, dst) in ways {
        node.configure(a.config());
        assert_eq!(node.drop_of(|node| node.send(&a, &udp(src, dst, 1, 80))), None);
        node.configure(ConfigRow { policy_slot: policy_slot(a.id, 1), ..a.config() });
        assert_eq!(node.drop_of(|node| node.send(&a, &udp(src, dst, 1, 80))), DENIED);
    }
}

#[test]
fn icmp_types_are_ports() {
    let (mut node, a, b, ways) = pair();
    let request =
        |protocol, kind| allow(PolicyKey::ports(Direction::Egress, b.identity, protocol, kind, 16));
    node.rules(&a, &[request(ICMP, 8), request(ICMPV6, 128)]);
    node.rules(&b, &[any(Direction::Ingress)]);
    for (src, dst) in ways {
        assert_eq!(node.drop_of(|node| node.send(&a, &echo(src, dst, 5, false))), None);
        assert_eq!(
            node.drop_of(|node| node.send(&a, &echo(src, dst, 6, true))),
            DENIED,
            "a reply to nothing"
        );
    }
}

#[test]
fn unknown_layer_4_protocols_are_dropped() {
    let (mut node, a, b, ways) = pair();
    node.rules(&a, &[any(Direction::Egress)]);
    node.rules(&b, &[any(Direction::Ingress)]);
    for (src, dst) in ways {
        assert_eq!(
            node.drop_of(|node| node.send(&a, &ip(src, dst, 47, &[0; 20]))),
            Some(137),
            "GRE"
        );
        assert_eq!(
            node.drop_of(|node| node.send(&a, &ip(src, dst, SCTP, &sctp_header(1, 2, SCTP_INIT)))),
            None
        );
        assert_eq!(
            node.drop_of(|node| node.send(&a, &ip(src, dst, UDP, &[0; 4]))),
            Some(135),
            "cut off"
        );
    }
    assert_eq!(
        node.drop_of(|node| node.send(&a, &ethernet(ANY_MACS, 0x88cc, &[0; 40]))),
        Some(166),
        "LLDP"
    );
}
