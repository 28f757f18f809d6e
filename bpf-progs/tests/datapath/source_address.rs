//! An endpoint may only send from its own addresses.

use crate::common::*;
use volvox_bpf_progs::layouts::*;

#[test]
fn a_foreign_source_is_dropped() {
    let mut node = Node::new();
    let (a, b, c) = (node.endpoint(1), node.endpoint(2), node.endpoint(3));
    let all = PolicyKey::any(Direction::Egress, 0);
    node.rules(&a, &[(all, PolicyRow::allow(&all, 0))]);
    for (src, dst) in [(b.v4(), c.v4()), (b.v6(), c.v6())] {
        let frame = udp(src, dst, 1, 2);
        assert_eq!(node.drop_of(|node| node.send(&a, &frame)), Some(132), "{src}");
    }
}

#[test]
fn an_endpoint_without_an_address_has_no_source() {
    let mut node = Node::new();
    let (a, b) = (node.endpoint(1), node.endpoint(2));
    node.configure(ConfigRow { ipv4: [0; 4], ipv6: [0; 16], ..a.config() });
    for dst in [b.v4(), b.v6()] {
        let (own, none) = if dst.is_ipv4() { (a.v4(), "0.0.0.0") } else { (a.v6(), "::") };
        for src in [own, none.parse().unwrap()] {
            let frame = udp(src, dst, 1, 2);
            assert_eq!(node.drop_of(|node| node.send(&a, &frame)), Some(132), "{src}");
        }
    }
}

#[test]
fn the_check_can_be_switched_off() {
    let mut node = Node::new();
    let (a, b) = (node.endpoint(1), node.endpoint(2));
    let all = PolicyKey::any(Direction::Egress, 0);
    node.rules(&a, &[(all, PolicyRow::allow(&all, 0))]);
    let all = PolicyKey::any(Direction::Ingress, 0);
    node.rules(&b, &[(all, PolicyRow::allow(&all, 0))]);
    node.configure(ConfigRow { flags: 0, ..a.config() });
    let frame = udp("10.9.9.9".parse().unwrap(), b.v4(), 1, 2);
    assert_eq!(node.send(&a, &frame).action, REDIRECT);
}
