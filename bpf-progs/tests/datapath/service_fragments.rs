//! Fragments: all of a datagram to a service go to one backend, and policy knows their ports.

use crate::common::*;
use std::net::IpAddr;
use volvox_bpf_progs::layouts::*;

/// More fragments follow.
const MORE: u16 = 0x2000;

fn allow(key: PolicyKey) -> (PolicyKey, PolicyRow) {
    (key, PolicyRow::allow(&key, 0))
}

/// The client may send to the backend's port, the backend hears only that.
struct World {
    node: Node,
    a: Endpoint,
    b: Endpoint,
}

impl World {
    fn new() -> Self {
        let mut node = Node::new();
        let (a, b) = (node.endpoint(1), node.endpoint(2));
        let ports = |direction, peer: &Endpoint| {
            [allow(PolicyKey::ports(direction, peer.identity, UDP, 8080, 16))]
        };
        node.rules(&a, &ports(Direction::Egress, &b));
        node.rules(&b, &ports(Direction::Ingress, &a));
        for (id, at) in [(1, b.v4()), (2, b.v6())] {
            node.backend(id, (at, 8080).into(), 0, BackendState::Active);
            let frontend = (service_address(at), 80).into();
            node.service(frontend, UDP, random_service(SERVICE), &[id]);
        }
        Self { node, a, b }
    }

    fn families(&self) -> [(IpAddr, IpAddr, IpAddr); 2] {
        [(self.a.v4(), self.b.v4()), (self.a.v6(), self.b.v6())]
            .map(|(client, backend)| (client, service_address(client), backend))
    }
}

/// A fragment at an offset in units of eight bytes.
fn fragment(src: IpAddr, dst: IpAddr, offset: u16, more: bool, payload: &[u8]) -> Vec<u8> {
    match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let word = offset | if more { MORE } else { 0 };
            ethernet(ANY_MACS, 0x0800, &ipv4(src, dst, UDP, word, payload))
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let word = offset << 3 | u16::from(more);
            let mut extended = vec![UDP, 0];
            extended.extend(word.to_be_bytes());
            extended.extend([0, 0, 0, 7]);
            extended.extend(payload);
            ethernet(ANY_MACS, 0x86dd, &ipv6(src, dst, 44, 64, &extended))
        }
        _ => panic!("{src} and {dst} are of different families"),
    }
}

/// The start of a datagram without a checksum.
fn datagram(sport: u16, dport: u16) -> Vec<u8> {
    [&udp_header(sport, dport)[..], &[0x5a; 16]].concat()
}

#[test]
fn every_fragment_reaches_the_backend() {
    let mut world = World::new();
    let (a, b) = (world.a, world.b);
    for (client, service, backend) in world.families() {
        let first = datagram(1000, 80);
        let got = world.node.send(&a, &fragment(client, service, 0, true, &first));
        let expected = fragment(client, backend, 0, true, &datagram(1000, 8080));
        assert_eq!((got.action, got.frame), (REDIRECT, delivered(expected, &b)));
        // What stands where a header would be is data.
        let rest = [0xee; 24];
        for (offset, more) in [(3, true), (6, false)] {
            let got = world.node.send(&a, &fragment(client, service, offset, more, &rest));
            let expected = fragment(client, backend, offset, more, &rest);
            assert_eq!((got.action, got.frame), (REDIRECT, delivered(expected, &b)));
        }
    }
    assert_eq!(world.node.drops(), [].into());
}

#[test]
fn the_checksum_in_the_first_fragment_covers_the_new_ends() {
    let mut world = World::new();
    let a = world.a;
    for (client, service, backend) in world.families() {
        let whole = |to: IpAddr, port: u16| {
            let sealed = sealed(ip(client, to, UDP, &datagram(1000, port)));
            let start = if to.is_ipv4() { 34 } else { 54 };
            sealed[start..].to_vec()
        };
        let got = world.node.send(&a, &fragment(client, service, 0, true, &whole(service, 80)));
        let expected = fragment(client, backend, 0, true, &whole(backend, 8080));
        assert_eq!((got.action, got.frame), (REDIRECT, delivered(expected, &world.b)));
    }
}

#[test]
fn fragments_of_a_reply_come_from_the_service() {
    let mut world = World::new();
    let (a, b) = (world.a, world.b);
    for (client, service, backend) in world.families() {
        world.node.send(&a, &sealed(udp(client, service, 1000, 80)));
        let first = fragment(backend, client, 0, true, &datagram(8080, 1000));
        let got = world.node.send(&b, &first);
        let expected = fragment(service, client, 0, true, &datagram(80, 1000));
        assert_eq!((got.action, got.frame), (REDIRECT, delivered(expected, &a)));
        let got = world.node.send(&b, &fragment(backend, client, 3, false, &[0xee; 24]));
        let expected = fragment(service, client, 3, false, &[0xee; 24]);
        assert_eq!((got.action, got.frame), (REDIRECT, delivered(expected, &a)));
    }
}

#[test]
fn a_later_fragment_that_comes_first_cannot_pass() {
    let mut world = World::new();
    let a = world.a;
    world.node.rules(&a, &[allow(PolicyKey::any(Direction::Egress, 0))]);
    for (client, service, _) in world.families() {
        let later = fragment(client, service, 3, false, &[0xee; 24]);
        assert_eq!(world.node.drop_of(|node| node.send(&a, &later)), Some(157));
    }
}

#[test]
fn another_datagram_has_ports_of_its_own() {
    let mut world = World::new();
    let a = world.a;
    for (client, service, _) in world.families() {
        world.node.send(&a, &fragment(client, service, 0, true, &datagram(1000, 80)));
        let mut later = fragment(client, service, 3, false, &[0xee; 24]);
        // Its number.
        let (number, sum) = if client.is_ipv4() { (18, 24) } else { (58, 0) };
        later[number] ^= 1;
        if sum != 0 {
            later[sum..sum + 2].fill(0);
            let header = checksum(&later[14..34]);
            later[sum..sum + 2].copy_from_slice(&header.to_be_bytes());
        }
        assert_eq!(world.node.drop_of(|node| node.send(&a, &later)), Some(157));
    }
}
