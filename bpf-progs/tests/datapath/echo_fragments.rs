//! Echoes that are longer than a frame: later fragments belong to the flow of the first one, by its identifier.

use crate::common::outside::World;
use crate::common::*;
use std::net::IpAddr;
use volvox_bpf_progs::layouts::*;

/// More fragments follow.
const MORE: u16 = 0x2000;
/// Destination unreachable, of each family.
const ERRORS: [u8; 2] = [3, 1];

/// A fragment of ICMP at an offset in units of eight bytes.
fn fragment(src: IpAddr, dst: IpAddr, offset: u16, more: bool, payload: &[u8]) -> Vec<u8> {
    match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let word = offset | if more { MORE } else { 0 };
            ethernet(ANY_MACS, 0x0800, &ipv4(src, dst, ICMP, word, payload))
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let word = offset << 3 | u16::from(more);
            let mut extended = vec![ICMPV6, 0];
            extended.extend(word.to_be_bytes());
            extended.extend([0, 0, 0, 7]);
            extended.extend(payload);
            ethernet(ANY_MACS, 0x86dd, &ipv6(src, dst, 44, 64, &extended))
        }
        _ => panic!("{src} and {dst} are of different families"),
    }
}

/// An echo, or its reply, in three fragments.
fn fragments(src: IpAddr, dst: IpAddr, identifier: u16, reply: bool) -> [Vec<u8>; 3] {
    let mut whole = echo(src, dst, identifier, reply);
    let start = whole.len() - 8;
    whole.extend([0x5a; 40]);
    // The pseudo header has this length; the header itself does not matter.
    let l4 = &sealed(whole)[start..];
    [(0, true, 0..16), (2, true, 16..32), (4, false, 32..48)]
        .map(|(offset, more, bytes)| fragment(src, dst, offset, more, &l4[bytes]))
}

#[test]
fn an_echo_of_fragments_is_masqueraded_and_answered() {
    let mut world = World::new();
    for (near, own, far) in world.families() {
        for identifier in [1000, 50_000] {
            let mut there = 0;
            for (nth, frame) in fragments(near, far, identifier, false).iter().enumerate() {
                let sent = world.sent(frame);
                if nth == 0 {
                    let at = if far.is_ipv4() { 38 } else { 66 };
                    there = u16::from_be_bytes([sent[at], sent[at + 1]]);
                    assert_eq!(there == identifier, identifier >= 32_768);
                }
                assert_eq!(sent, fragments(own, far, there, false)[nth], "{nth}");
            }
            let expected = fragments(far, near, identifier, true);
            for (frame, expected) in fragments(far, own, there, true).iter().zip(expected) {
                assert_eq!(world.got(frame), delivered(expected, &world.a));
            }
        }
    }
    assert_eq!(world.node.drops(), [].into());
}

#[test]
fn a_rule_for_echoes_lets_all_their_fragments_pass() {
    let mut node = Node::new();
    let (a, b) = (node.endpoint(1), node.endpoint(2));
    let rule = |direction, peer: &Endpoint, protocol, kind: u8| {
        let key = PolicyKey::ports(direction, peer.identity, protocol, kind.into(), 16);
        (key, PolicyRow::allow(&key, 0))
    };
    let rules = |direction, peer: &Endpoint| {
        [rule(direction, peer, ICMP, 8), rule(direction, peer, ICMPV6, 128)]
    };
    node.rules(&a, &rules(Direction::Egress, &b));
    node.rules(&b, &rules(Direction::Ingress, &a));
    for (near, other) in [(a.v4(), b.v4()), (a.v6(), b.v6())] {
        for frame in fragments(near, other, 7, false) {
            assert_eq!(node.drop_of(|node| node.send(&a, &frame)), None);
        }
        for frame in fragments(other, near, 7, true) {
            assert_eq!(node.drop_of(|node| node.send(&b, &frame)), None);
        }
        // Unasked, that is nobody's answer.
        for frame in fragments(near, other, 8, true) {
            assert_eq!(node.drop_of(|node| node.send(&a, &frame)), Some(133));
        }
    }
}

#[test]
fn fragments_of_what_is_no_echo_are_not_an_earlier_echos() {
    let mut node = Node::new();
    let (a, b) = (node.endpoint(1), node.endpoint(2));
    for protocol in [ICMP, ICMPV6] {
        let echoes = if protocol == ICMP { 8 } else { 128 };
        let ports = |direction, peer: u32| {
            let key = PolicyKey::ports(direction, peer, protocol, echoes, 16);
            [(key, PolicyRow::allow(&key, 0))]
        };
        node.rules(&a, &ports(Direction::Egress, b.identity));
        node.rules(&b, &ports(Direction::Ingress, a.identity));
        let (near, other) = if protocol == ICMP { (a.v4(), b.v4()) } else { (a.v6(), b.v6()) };
        let [first, later, _] = fragments(near, other, 7, false);
        for frame in [&first, &later] {
            assert_eq!(node.drop_of(|node| node.send(&a, frame)), None);
        }
        // Of the same number.
        let error = icmp_header(ERRORS[usize::from(protocol == ICMPV6)], 0, 7);
        node.send(&a, &fragment(near, other, 0, true, &[&error[..], &[0; 8]].concat()));
        assert_eq!(node.drop_of(|node| node.send(&a, &later)), Some(157));
    }
}
