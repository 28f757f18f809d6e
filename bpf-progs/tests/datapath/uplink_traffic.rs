//! Sockets in real namespaces on both sides of a node's device, the programs attached to it.

use crate::common::outside::{open_service, outside};
use crate::common::talk::*;
use crate::common::*;
use aya::programs::tc::TcAttachOptions;
use aya::programs::{LinkOrder, TcAttachType};
use std::io::ErrorKind;
use std::net::{IpAddr, TcpListener, TcpStream};
use volvox_bpf_progs::layouts::*;
use volvox_bpf_progs::object::{FROM_NETDEV, TO_NETDEV};

/// Ports of services whose backend is the pod, a machine outside, and the node.
const PORTS: [u16; 3] = [30_080, 30_081, 30_082];

/// A node with one pod, whose policy allows all, and what is outside.
struct World {
    node: Node,
    pod: (Endpoint, Namespace),
    client: Namespace,
    /// Of the node's own namespace.
    here: Namespace,
}

fn far(like: IpAddr) -> [IpAddr; 2] {
    let texts =
        if like.is_ipv4() { ["198.51.100.7", "10.2.0.7"] } else { ["2001:db8:7::7", "f00d:2::7"] };
    texts.map(|text| text.parse().unwrap())
}

impl World {
    fn new() -> Self {
        let (mut node, up) = Node::with_uplink();
        let families = [UPLINK.0.into(), IpAddr::from(UPLINK.1)];
        let client = outside(&families.map(far).concat());
        node.become_gateway();
        let pod = node.pod(1);
        let all = [Direction::Egress, Direction::Ingress].map(|way| PolicyKey::any(way, 0));
        node.rules(&pod.0, &all.map(|key| (key, PolicyRow::allow(&key, 1))));
        for (number, own) in (1..).zip(families) {
            let backends = [pod.0.ip(own), far(own)[1], own];
            for ((id, backend), port) in (0x107..).zip(backends).zip(PORTS) {
                let backend_id = number * 100 + u32::from(id);
                node.backend(backend_id, (backend, 8080).into(), 0, BackendState::Active);
                for protocol in [TCP, UDP] {
                    node.service((own, port).into(), protocol, open_service(id), &[backend_id]);
                }
            }
        }
        for (name, hook) in
            [(FROM_NETDEV, TcAttachType::Ingress), (TO_NETDEV, TcAttachType::Egress)]
        {
            let options = TcAttachOptions::TcxOrder(LinkOrder::default());
            node.program(name).attach_with_options("up0", hook, options).unwrap();
        }
        assert_ne!(up.ifindex, 0);
        Self { node, pod, client, here: Namespace::here() }
    }

    /// The pod's, the node's, the client's, and the other machine's addresses.
    fn families(&self) -> [(IpAddr, IpAddr, IpAddr, IpAddr); 2] {
        [UPLINK.0.into(), IpAddr::from(UPLINK.1)].map(|own| {
            let [client, other] = far(own);
            (self.pod.0.ip(own), own, client, other)
        })
    }
}

#[test]
fn a_pod_speaks_with_the_world_by_the_nodes_address() {
    let mut world = World::new();
    for (near, own, there, _) in world.families() {
        let asking = world.pod.1.run(move || udp_socket((near, 0).into()));
        let answering = world.client.run(move || udp_socket((there, 5300).into()));
        for bytes in [1, 1400, 5000, 60_000] {
            assert_eq!(ask(&asking, (there, 5300).into(), &answering, bytes), own);
        }
        let listener = world.client.run(move || TcpListener::bind((there, 8443)).unwrap());
        assert_eq!(stream(&world.pod.1, (there, 8443).into(), listener), own);
        let refused = world.pod.1.run(move || {
            let socket = udp_socket((near, 0).into());
            socket.connect((there, 1)).unwrap();
            socket.send(b"hello").unwrap();
            socket.recv(&mut [0; 8]).expect_err("nobody answers").kind()
        });
        assert_eq!(refused, ErrorKind::ConnectionRefused, "the error finds the pod");
    }
    assert_eq!(world.node.drops(), [].into());
}

#[test]
fn the_node_speaks_with_the_world_itself() {
    let mut world = World::new();
    for (_, own, there, _) in world.families() {
        let asking = world.here.run(move || udp_socket((own, 0).into()));
        let answering = world.client.run(move || udp_socket((there, 5300).into()));
        assert_eq!(ask(&asking, (there, 5300).into(), &answering, 1400), own);
        let listener = world.client.run(move || TcpListener::bind((there, 8443)).unwrap());
        assert_eq!(stream(&world.here, (there, 8443).into(), listener), own);
    }
    assert_eq!(world.node.drops(), [].into());
}

#[test]
fn clients_are_served_by_a_pod_by_another_machine_and_by_the_node() {
    let mut world = World::new();
    for (near, own, client, other) in world.families() {
        for (port, backend, seen) in
            [(PORTS[0], near, client), (PORTS[1], other, own), (PORTS[2], own, client)]
        {
            let place = match backend {
                _ if backend == near => &world.pod.1,
                _ if backend == other => &world.client,
                _ => &world.here,
            };
            // First while nobody listens: a closed socket lives on in a process that is just started.
            let refused = world.client.run(move || {
                let socket = udp_socket((client, 0).into());
                socket.connect((own, port)).unwrap();
                socket.send(b"hello").unwrap();
                socket.recv(&mut [0; 8]).expect_err("nobody answers").kind()
            });
            assert_eq!(refused, ErrorKind::ConnectionRefused, "{own}, {port}");
            let refused = world.client.run(move || {
                let refused = TcpStream::connect_timeout(&(own, port).into(), PATIENCE);
                refused.expect_err("nobody listens").kind()
            });
            assert_eq!(refused, ErrorKind::ConnectionRefused, "{own}, {port}");
            let asking = world.client.run(move || udp_socket((client, 0).into()));
            let answering = place.run(move || udp_socket((backend, 8080).into()));
            for bytes in [1, 1400] {
                assert_eq!(ask(&asking, (own, port).into(), &answering, bytes), seen, "{port}");
            }
            let listener = place.run(move || TcpListener::bind((backend, 8080)).unwrap());
            stream(&world.client, (own, port).into(), listener);
        }
    }
    assert_eq!(world.node.drops(), [].into());
}
