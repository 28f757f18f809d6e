//! Fragments are not put together: a later one has no port, and only rules without one can pass it.

use crate::common::*;
use volvox_bpf_progs::layouts::*;

/// More fragments follow.
const MORE: u16 = 0x2000;

fn allow(key: PolicyKey) -> (PolicyKey, PolicyRow) {
    (key, PolicyRow::allow(&key, 0))
}

/// A fragment of a UDP packet at an offset in units of eight bytes.
fn fragment(a: &Endpoint, b: &Endpoint, v6: bool, offset: u16, more: bool) -> Vec<u8> {
    let payload = udp_header(1000, 80);
    if v6 {
        let word = offset << 3 | u16::from(more);
        let mut extended = vec![UDP, 0];
        extended.extend(word.to_be_bytes());
        extended.extend([0, 0, 0, 1]);
        extended.extend(payload);
        ethernet(ANY_MACS, 0x86dd, &ipv6(a.ipv6, b.ipv6, 44, 64, &extended))
    } else {
        let word = offset | if more { MORE } else { 0 };
        ethernet(ANY_MACS, 0x0800, &ipv4(a.ipv4, b.ipv4, UDP, word, &payload))
    }
}

#[test]
fn a_first_fragment_has_its_ports() {
    for v6 in [false, true] {
        let mut node = Node::new();
        let (a, b) = (node.endpoint(1), node.endpoint(2));
        node.rules(&a, &[allow(PolicyKey::ports(Direction::Egress, b.identity, UDP, 80, 16))]);
        node.rules(&b, &[allow(PolicyKey::any(Direction::Ingress, 0))]);
        assert_eq!(node.drop_of(|node| node.send(&a, &fragment(&a, &b, v6, 0, true))), None);
    }
}

#[test]
fn a_later_fragment_passes_by_rules_without_a_port() {
    for v6 in [false, true] {
        let mut node = Node::new();
        let (a, b) = (node.endpoint(1), node.endpoint(2));
        node.rules(&b, &[allow(PolicyKey::any(Direction::Ingress, a.identity))]);
        let later = fragment(&a, &b, v6, 100, false);
        node.rules(&a, &[allow(PolicyKey::ports(Direction::Egress, b.identity, UDP, 80, 16))]);
        assert_eq!(node.drop_of(|node| node.send(&a, &later)), Some(157), "only a port rule");
        node.rules(&a, &[]);
        assert_eq!(node.drop_of(|node| node.send(&a, &later)), Some(157), "no rule");
        for key in [
            PolicyKey::any(Direction::Egress, 0),
            PolicyKey::any(Direction::Egress, b.identity),
            PolicyKey::protocol(Direction::Egress, 0, UDP),
        ] {
            node.rules(&a, &[allow(key)]);
            assert_eq!(node.drop_of(|node| node.send(&a, &later)), None, "{key:?}");
        }
        assert_eq!(node.tracked_count(), 0, "a fragment is no connection");
        node.rules(&a, &[allow(PolicyKey::protocol(Direction::Egress, 0, TCP))]);
        assert_eq!(node.drop_of(|node| node.send(&a, &later)), Some(157), "another protocol");
    }
}

#[test]
fn extension_headers_are_stepped_over() {
    let mut node = Node::new();
    let (a, b) = (node.endpoint(1), node.endpoint(2));
    node.rules(&a, &[allow(PolicyKey::ports(Direction::Egress, b.identity, UDP, 80, 16))]);
    node.rules(&b, &[allow(PolicyKey::any(Direction::Ingress, 0))]);
    // Hop-by-hop options, then destination options of 16 bytes, then UDP.
    let mut chain =
        vec![60, 0, 1, 4, 0, 0, 0, 0, UDP, 1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    chain.extend(udp_header(1000, 80));
    let frame = ethernet(ANY_MACS, 0x86dd, &ipv6(a.ipv6, b.ipv6, 0, 64, &chain));
    assert_eq!(node.drop_of(|node| node.send(&a, &frame)), None);
    let endless = [60, 0, 1, 4, 0, 0, 0, 0].repeat(12);
    let frame = ethernet(ANY_MACS, 0x86dd, &ipv6(a.ipv6, b.ipv6, 60, 64, &endless));
    assert_eq!(node.drop_of(|node| node.send(&a, &frame)), Some(156), "too many");
    let cut = ethernet(ANY_MACS, 0x86dd, &ipv6(a.ipv6, b.ipv6, 60, 64, &[17, 0]));
    assert_eq!(node.drop_of(|node| node.send(&a, &cut)), Some(156), "cut off");
}
