//! Sockets in real namespaces that speak by services, the programs attached where they belong.

use crate::common::talk::*;
use crate::common::*;
use std::io::ErrorKind;
use std::net::{IpAddr, TcpListener, TcpStream};
use volvox_bpf_progs::layouts::*;

fn allow(key: PolicyKey) -> (PolicyKey, PolicyRow) {
    (key, PolicyRow::allow(&key, 0))
}

/// A client that may send to the backend's port and nothing else, and that backend.
struct World {
    node: Node,
    pods: [(Endpoint, Namespace); 2],
}

impl World {
    fn new() -> Self {
        let mut node = Node::new();
        node.become_gateway();
        let pods = [node.pod(1), node.pod(2)];
        let (a, b) = (pods[0].0, pods[1].0);
        let ports = |direction, peer: &Endpoint| {
            [TCP, UDP].map(|protocol| {
                allow(PolicyKey::ports(direction, peer.identity, protocol, 8080, 16))
            })
        };
        node.rules(&a, &ports(Direction::Egress, &b));
        node.rules(&b, &ports(Direction::Ingress, &a));
        for (id, at) in [(1, b.v4()), (2, b.v6())] {
            node.backend(id, (at, 8080).into(), 0, BackendState::Active);
            for protocol in [TCP, UDP] {
                let frontend = (service_address(at), 80).into();
                node.service(frontend, protocol, random_service(SERVICE), &[id]);
            }
        }
        Self { node, pods }
    }

    /// The client's, the service's and the backend's addresses.
    fn families(&self) -> [(IpAddr, IpAddr, IpAddr); 2] {
        let (a, b) = (self.pods[0].0, self.pods[1].0);
        [(a.v4(), b.v4()), (a.v6(), b.v6())]
            .map(|(client, backend)| (client, service_address(client), backend))
    }
}

#[test]
fn a_service_answers_datagrams_small_and_large() {
    let mut world = World::new();
    let [(_, first), (_, second)] = &world.pods;
    for (client, service, backend) in world.families() {
        let asking = first.run(move || udp_socket((client, 0).into()));
        let answering = second.run(move || udp_socket((backend, 8080).into()));
        for bytes in [1, 100, 1400, 5000, 60_000] {
            assert_eq!(ask(&asking, (service, 80).into(), &answering, bytes), client);
        }
    }
    assert_eq!(world.node.drops(), [].into());
}

#[test]
fn a_service_carries_streams() {
    let mut world = World::new();
    let [(_, first), (_, second)] = &world.pods;
    for (client, service, backend) in world.families() {
        let listener =
            second.run(move || TcpListener::bind((backend, 8080)).expect("the port is free"));
        assert_eq!(stream(first, (service, 80).into(), listener), client);
    }
    assert_eq!(world.node.drops(), [].into());
}

#[test]
fn a_pod_is_served_by_itself() {
    let mut world = World::new();
    let [_, (_, pod)] = &world.pods;
    for (_, service, own) in world.families() {
        let stand_in: IpAddr =
            if own.is_ipv4() { "169.254.42.1" } else { "fe80::1" }.parse().unwrap();
        let asking = pod.run(move || udp_socket((own, 0).into()));
        let answering = pod.run(move || udp_socket((own, 8080).into()));
        assert_eq!(ask(&asking, (service, 80).into(), &answering, 100), stand_in);
        let listener = pod.run(move || TcpListener::bind((own, 8080)).expect("the port is free"));
        assert_eq!(stream(pod, (service, 80).into(), listener), stand_in);
    }
    assert_eq!(world.node.drops(), [].into());
}

#[test]
fn a_closed_port_of_a_backend_refuses() {
    let world = World::new();
    let [(_, first), _] = &world.pods;
    for (client, service, _) in world.families() {
        let refused = first.run(move || {
            let socket = udp_socket((client, 0).into());
            socket.connect((service, 80)).expect("the route exists");
            socket.send(b"hello").expect("it is sent");
            socket.recv(&mut [0; 8]).expect_err("nobody answers").kind()
        });
        assert_eq!(refused, ErrorKind::ConnectionRefused, "the error names the service");
        let refused = first.run(move || {
            let refused = TcpStream::connect_timeout(&(service, 80).into(), PATIENCE);
            refused.expect_err("nobody listens").kind()
        });
        assert_eq!(refused, ErrorKind::ConnectionRefused);
    }
}
