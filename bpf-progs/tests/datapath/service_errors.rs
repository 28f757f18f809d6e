//! ICMP errors about connections by a service: each side hears of the packet that it sent.

use crate::common::overlay::REMOTE_NODE;
use crate::common::*;
use std::net::IpAddr;
use volvox_bpf_progs::layouts::*;

fn allow(key: PolicyKey) -> (PolicyKey, PolicyRow) {
    (key, PolicyRow::allow(&key, 0))
}

/// A client that may send everywhere, and a service with a backend that hears only the client.
struct World {
    node: Node,
    a: Endpoint,
    b: Endpoint,
}

impl World {
    fn new() -> Self {
        let mut node = Node::new();
        let (a, b) = (node.endpoint(1), node.endpoint(2));
        node.rules(&a, &[allow(PolicyKey::any(Direction::Egress, 0))]);
        node.rules(&b, &[allow(PolicyKey::any(Direction::Ingress, a.identity))]);
        for (id, at) in [(1, b.v4()), (2, b.v6())] {
            node.backend(id, (at, 8080).into(), 0, BackendState::Active);
            for protocol in [TCP, UDP] {
                let frontend = (service_address(at), 80).into();
                node.service(frontend, protocol, random_service(SERVICE), &[id]);
            }
        }
        Self { node, a, b }
    }

    fn families(&self) -> [(IpAddr, IpAddr, IpAddr); 2] {
        [(self.a.v4(), self.b.v4()), (self.a.v6(), self.b.v6())]
            .map(|(client, backend)| (client, service_address(client), backend))
    }

    /// What is handed over of a frame.
    fn sent(&mut self, from: Endpoint, frame: &[u8]) -> Vec<u8> {
        let got = self.node.send(&from, frame);
        assert_eq!(got.action, REDIRECT, "{:?}", self.node.drops());
        got.frame
    }
}

/// The bytes from the network header on, but for the checksum of the packet inside an error about
/// UDP, which nobody corrects, and what of the error's own follows from it.
fn comparable(frame: &[u8]) -> Vec<u8> {
    let v4 = frame[12..14] == [8, 0];
    let mut bytes = frame[14..].to_vec();
    let (icmp, inner_udp_sum) = if v4 { (22, 54) } else { (42, 94) };
    bytes[icmp..icmp + 2].fill(0);
    if bytes[if v4 { 37 } else { 54 }] == UDP {
        bytes[inner_udp_sum..inner_udp_sum + 2].fill(0);
    }
    bytes
}

#[test]
fn a_client_hears_of_the_packet_that_it_sent_to_the_service() {
    let mut world = World::new();
    let (a, b) = (world.a, world.b);
    for (client, service, backend) in world.families() {
        for (sent, direct) in [
            (tcp(client, service, 1000, 80, SYN), tcp(client, backend, 1000, 8080, SYN)),
            (udp(client, service, 1000, 80), udp(client, backend, 1000, 8080)),
        ] {
            world.sent(a, &sealed(sent.clone()));
            let got = world.sent(b, &sealed(unreachable(backend, client, &direct)));
            assert!(is_sealed(&got));
            let expected = delivered(unreachable(service, client, &sent), &a);
            assert_eq!(comparable(&got), comparable(&expected));
        }
    }
}

#[test]
fn a_router_on_the_way_keeps_its_own_address() {
    let mut world = World::new();
    let a = world.a;
    for ((client, service, backend), router) in
        world.families().into_iter().zip(["198.51.100.1", "2001:db8:1::1"])
    {
        let router: IpAddr = router.parse().unwrap();
        // One outside is not between two endpoints of this node; another node may be.
        let bits = if router.is_ipv4() { 32 } else { 128 };
        world.node.ipcache(router, bits, REMOTE_NODE);
        let sent = udp(client, service, 1000, 80);
        world.sent(a, &sealed(sent.clone()));
        let direct = udp(client, backend, 1000, 8080);
        let got = world.node.deliver(&a, 0, &sealed(unreachable(router, client, &direct)));
        assert_eq!(got.action, OK);
        assert!(is_sealed(&got.frame));
        let expected = unreachable(router, client, &sent);
        assert_eq!(comparable(&got.frame), comparable(&expected));
    }
}

#[test]
fn a_backend_hears_of_the_packet_that_it_answered() {
    let mut world = World::new();
    let (a, b) = (world.a, world.b);
    for (client, service, backend) in world.families() {
        world.sent(a, &sealed(udp(client, service, 1000, 80)));
        let answer = sealed(udp(backend, client, 8080, 1000));
        world.sent(b, &answer);
        let heard = udp(service, client, 80, 1000);
        let got = world.sent(a, &sealed(unreachable(client, service, &heard)));
        assert!(is_sealed(&got));
        let expected = delivered(unreachable(client, backend, &answer), &b);
        assert_eq!(comparable(&got), comparable(&expected));
    }
}

#[test]
fn an_error_about_nothing_is_not_translated() {
    let mut world = World::new();
    let a = world.a;
    for (client, service, _) in world.families() {
        let error = sealed(unreachable(client, service, &udp(service, client, 80, 1000)));
        let got = world.node.send(&a, &error);
        assert_eq!((got.action, got.frame), (OK, error), "it goes where its address leads");
    }
}
