//! Who a packet is from and to: rows of endpoints, the ipcache, the world, packet marks.

use crate::common::*;
use aya::maps::HashMap;
use std::net::IpAddr;
use volvox_bpf_progs::Features;
use volvox_bpf_progs::layouts::*;

const HOST: u32 = 1;
const WORLD: u32 = 2;
const WORLD_IPV4: u32 = 9;
const WORLD_IPV6: u32 = 10;

fn parse(address: &str) -> IpAddr {
    address.parse().expect("an address")
}

/// Whether a packet to this address passes when only this identity may be sent to.
fn sends_to(node: &mut Node, from: &Endpoint, dst: IpAddr, identity: u32) -> bool {
    let key = PolicyKey::any(Direction::Egress, identity);
    node.rules(from, &[(key, PolicyRow::allow(&key, 0))]);
    node.send(from, &udp(from.ip(dst), dst, 1, identity as u16)).action == OK
}

/// Whether a packet from this address and mark passes when only this identity may send.
fn hears_from(node: &mut Node, to: &Endpoint, src: IpAddr, mark: u32, identity: u32) -> bool {
    let key = PolicyKey::any(Direction::Ingress, identity);
    node.rules(to, &[(key, PolicyRow::allow(&key, 0))]);
    node.deliver(to, mark, &udp(src, to.ip(src), 1, identity as u16)).action == OK
}

#[test]
fn the_longest_prefix_of_the_ipcache_decides() {
    let mut node = Node::new();
    let a = node.endpoint(1);
    let wide = 1 << 24 | 1;
    for (net, bits, host, full) in
        [("192.0.2.0", 24, "192.0.2.9", 32), ("2001:db8::", 32, "2001:db8::9", 128)]
    {
        node.ipcache(parse(net), bits, wide);
        assert!(sends_to(&mut node, &a, parse(host), wide));
        node.ipcache(parse(host), full, 777);
        assert!(sends_to(&mut node, &a, parse(host), 777));
        assert!(!sends_to(&mut node, &a, parse(host), wide));
    }
    assert!(sends_to(&mut node, &a, parse("192.0.2.10"), wide));
}

#[test]
fn what_nobody_knows_is_the_world_of_its_family() {
    let mut node = Node::new();
    let a = node.endpoint(1);
    assert!(sends_to(&mut node, &a, parse("192.0.2.1"), WORLD_IPV4));
    assert!(sends_to(&mut node, &a, parse("2001:db8::1"), WORLD_IPV6));
    assert!(hears_from(&mut node, &a, parse("192.0.2.1"), 0, WORLD_IPV4));
    assert!(hears_from(&mut node, &a, parse("2001:db8::1"), 0, WORLD_IPV6));
}

#[test]
fn with_one_family_there_is_one_world() {
    let mut node = Node::with(Features { ipv6: false, ..Features::default() });
    let a = node.endpoint(1);
    assert!(sends_to(&mut node, &a, parse("192.0.2.1"), WORLD));
}

#[test]
fn the_nodes_own_addresses_are_the_host() {
    let mut node = Node::new();
    let a = node.endpoint(1);
    for address in ["192.0.2.1", "2001:db8::1"].map(parse) {
        node.map::<HashMap<_, LxcKey, LxcRow>>("cilium_lxc", |mut map| {
            let row = LxcRow { flags: LxcFlags::HOST, ..LxcRow::default() };
            map.insert(LxcKey::new(address), row, 0).unwrap();
        });
        assert!(sends_to(&mut node, &a, address, HOST));
    }
}

#[test]
fn an_endpoints_row_without_an_identity_leaves_it_to_the_ipcache() {
    let mut node = Node::new();
    let (a, b) = (node.endpoint(1), node.endpoint(2));
    let all = PolicyKey::any(Direction::Ingress, 0);
    node.rules(&b, &[(all, PolicyRow::allow(&all, 0))]);
    let only = PolicyKey::any(Direction::Egress, 4321);
    node.rules(&a, &[(only, PolicyRow::allow(&only, 0))]);
    assert_eq!(node.drop_of(|node| node.send(&a, &udp(a.v4(), b.v4(), 1, 2))), Some(133));
    node.ipcache(b.v4(), 32, 4321);
    assert_eq!(
        node.drop_of(|node| node.send(&a, &udp(a.v4(), b.v4(), 1, 2))),
        Some(133),
        "the row comes first"
    );
    node.map::<HashMap<_, LxcKey, LxcRow>>("cilium_lxc", |mut map| {
        let row = map.get(&LxcKey::new(b.v4()), 0).unwrap();
        map.insert(LxcKey::new(b.v4()), LxcRow { sec_id: 0, ..row }, 0).unwrap();
    });
    assert_eq!(node.drop_of(|node| node.send(&a, &udp(a.v4(), b.v4(), 1, 2))), None);
}

#[test]
fn the_mark_says_who_sent_through_the_stack() {
    let mut node = Node::new();
    let a = node.endpoint(1);
    let src = parse("192.0.2.1");
    let mark_of = |identity: u32| (identity & 0xffff) << 16 | identity >> 16 | 0x0f00;
    assert!(hears_from(&mut node, &a, src, mark_of(0x1_2345), 0x1_2345));
    assert!(hears_from(&mut node, &a, src, 0x0c00, HOST));
    assert!(hears_from(&mut node, &a, src, 0x4000, WORLD_IPV4), "somebody else's mark");
}

#[test]
fn the_mark_that_is_set_is_the_mark_that_is_read() {
    let mut node = Node::new();
    let (a, b) = (node.endpoint(1), node.endpoint(2));
    let far = parse("192.0.2.1");
    let big = 0xab_cdef;
    node.configure(ConfigRow { identity: big, ..a.config() });
    let key = PolicyKey::any(Direction::Egress, 0);
    node.rules(&a, &[(key, PolicyRow::allow(&key, 0))]);
    let mark = node.send(&a, &udp(a.v4(), far, 1, 2)).mark;
    assert!(hears_from(&mut node, &b, far, mark, big));
}
