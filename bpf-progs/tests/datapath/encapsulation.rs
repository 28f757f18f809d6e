//! An endpoint is no node: what it sends at the port of the overlay's packets reaches no machine.

use crate::common::outside::{open_service, route_outside};
use crate::common::*;
use std::net::IpAddr;
use volvox_bpf_progs::layouts::*;

const PORT: u16 = 8472;
const PROHIBITED: u8 = 170;

fn all(node: &mut Node, endpoint: &Endpoint) {
    let both = [Direction::Egress, Direction::Ingress].map(|way| PolicyKey::any(way, 0));
    node.rules(endpoint, &both.map(|key| (key, PolicyRow::allow(&key, 1))));
}

/// A node with an overlay, its device, and two endpoints that may do everything.
fn world() -> (Node, Uplink, Endpoint, Endpoint) {
    let (mut node, up) = Node::with_uplink();
    route_outside();
    let (a, b) = (node.endpoint(1), node.endpoint(2));
    all(&mut node, &a);
    all(&mut node, &b);
    node.node(NodeRow {
        router_ipv4: GATEWAY.0.octets(),
        router_ipv6: GATEWAY.1.octets(),
        tunnel_ifindex: 1,
        tunnel_port: Be16::new(PORT),
        ..NodeRow::default()
    });
    (node, up, a, b)
}

fn addresses(all: &[&str]) -> Vec<IpAddr> {
    all.iter().map(|it| it.parse().expect("an address")).collect()
}

#[test]
fn no_machine_hears_it() {
    let (mut node, up, a, _) = world();
    for (other, identity) in [("192.0.2.77", 6), ("2001:db8::77", 6), ("192.0.2.78", 7)] {
        let other: IpAddr = other.parse().unwrap();
        node.ipcache(other, if other.is_ipv4() { 32 } else { 128 }, identity);
    }
    let own = [UPLINK.0.into(), UPLINK.1.into()];
    // This node by its device, its router, the link, to many; other nodes; the world, of which some are nodes.
    let machines = addresses(&[
        "fe80::2",
        "ff02::1",
        "224.0.0.1",
        "255.255.255.255",
        "192.0.2.255",
        "192.0.2.77",
        "2001:db8::77",
        "192.0.2.78",
        "198.51.100.7",
        "2001:db8:7::7",
    ]);
    for machine in machines.into_iter().chain(own).chain([GATEWAY.0.into(), GATEWAY.1.into()]) {
        let sent = udp(a.ip(machine), machine, 5000, PORT);
        assert_eq!(node.drop_of(|node| node.send(&a, &sent)), Some(PROHIBITED), "{machine}");
        let other = udp(a.ip(machine), machine, 5000, PORT + 1);
        assert_eq!(node.drop_of(|node| node.send(&a, &other)), None, "{machine}: another port");
        let stream = tcp(a.ip(machine), machine, 5000, PORT, SYN);
        assert_eq!(node.drop_of(|node| node.send(&a, &stream)), None, "{machine}: TCP");
    }
    let _ = up;
}

#[test]
fn endpoints_may_use_the_port_among_themselves() {
    let (mut node, _, a, b) = world();
    let far = addresses(&["10.2.0.7", "f00d:2::7"]);
    for (near, far) in [b.v4(), b.v6()].into_iter().zip(far) {
        let flags = IpcacheFlags::HAS_TUNNEL_ENDPOINT;
        node.ipcache_row(far, IpcacheRow { identity: 777, flags, ..IpcacheRow::default() });
        for to in [near, far] {
            let sent = udp(a.ip(to), to, 5000, PORT);
            assert_eq!(node.send(&a, &sent).action, REDIRECT, "{to}");
        }
    }
}

/// A service may have a node for its backend, and its port may be any.
#[test]
fn nor_by_a_service() {
    let (mut node, up, a, _) = world();
    for (id, to, from) in [
        (1, "192.0.2.77", "198.51.100.7"),
        (2, "2001:db8::77", "2001:db8:7::7"),
        (3, "192.0.2.1", "198.51.100.7"),
    ] {
        let [to, from]: [IpAddr; 2] = [to, from].map(|it| it.parse().unwrap());
        let bits = if to.is_ipv4() { 32 } else { 128 };
        node.ipcache(to, bits, if id == 3 { 1 } else { 6 });
        node.backend(id, (to, PORT).into(), 0, BackendState::Active);
        let inside = service_address(a.ip(to));
        node.service((inside, 80).into(), UDP, random_service(SERVICE), &[id]);
        let sent = udp(a.ip(to), inside, 5000 + id as u16, 80);
        assert_eq!(node.drop_of(|node| node.send(&a, &sent)), Some(PROHIBITED), "{to}");
        if id < 3 {
            // Whoever asks from outside would be this node to the other one.
            let own = up.ip(to);
            node.service((own, 30_080).into(), UDP, open_service(SERVICE), &[id]);
            let asked = udp(from, own, 5000, 30_080);
            assert_eq!(node.drop_of(|node| node.receive(&up, &asked)), Some(PROHIBITED), "{to}");
        }
    }
}

#[test]
fn nor_in_fragments() {
    let (mut node, _, a, _) = world();
    let machine: IpAddr = "192.0.2.77".parse().unwrap();
    let IpAddr::V4(to) = machine else { unreachable!() };
    let fragment = |word: u16| {
        ethernet(ANY_MACS, 0x0800, &ipv4(a.ipv4, to, UDP, word, &udp_header(5000, PORT)))
    };
    for word in [0x2000, 0x2001, 2] {
        assert_eq!(node.drop_of(|node| node.send(&a, &fragment(word))), Some(PROHIBITED));
    }
}

#[test]
fn without_an_overlay_the_port_is_like_others() {
    let (mut node, _, a, _) = world();
    node.node(NodeRow { tunnel_port: Be16::new(PORT), ..NodeRow::default() });
    let sent = udp(a.v4(), UPLINK.0.into(), 5000, PORT);
    assert_eq!(node.drop_of(|node| node.send(&a, &sent)), None);
}
