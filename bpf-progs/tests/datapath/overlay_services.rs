//! Services whose backends are behind the overlay: clients outside are answered through it, and neither
//! they nor the node itself hear what is another's.

use crate::common::host::{everything, host_firewall};
use crate::common::outside::open_service;
use crate::common::overlay::*;
use crate::common::talk::*;
use crate::common::*;
use aya::programs::tc::TcAttachType;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use volvox_bpf_progs::Features;
use volvox_bpf_progs::layouts::*;
use volvox_bpf_progs::object::TO_OVERLAY;

const PORT: u16 = 30_080;
const BACKEND_PORT: u16 = 8080;

/// Who has to do with a service, of one family.
#[derive(Clone, Copy)]
struct Parties {
    client: IpAddr,
    /// The node's addresses: that which serves, and that by which endpoints are routed.
    own: IpAddr,
    router: IpAddr,
    backend: IpAddr,
}

impl Parties {
    fn service(&self) -> SocketAddr {
        (self.own, PORT).into()
    }

    fn served(&self) -> SocketAddr {
        (self.backend, BACKEND_PORT).into()
    }
}

fn families() -> [Parties; 2] {
    let of = |client: &str, own: IpAddr, router: IpAddr, nth: usize| {
        let client = client.parse().unwrap();
        // What the world says arrives at the other node by the device of that identity.
        Parties { client, own, router, backend: peer(WORLD[nth], client) }
    };
    [
        of(CLIENT.0, UPLINK.0.into(), GATEWAY.0.into(), 0),
        of(CLIENT.1, UPLINK.1.into(), GATEWAY.1.into(), 1),
    ]
}

/// A service for clients outside with a backend of the other node, which reaches the router's address by the
/// overlay, as the node reaches the backend.
fn world(features: Features) -> World {
    let mut world = World::with(features);
    let mac = world.pod.0.node_mac;
    // Nothing but the interface of the node's own has the router's address, and no row says whose it is.
    for router in [GATEWAY.0.into(), IpAddr::from(GATEWAY.1)] {
        world.node.remove::<_, LxcRow>("cilium_lxc", LxcKey::new(router));
    }
    let row: NodeRow = world.node.read_node();
    world.node.node(NodeRow { tunnel_port: Be16::new(8472), ..row });
    world.node.host_rules(&[everything(Direction::Egress)]);
    attach(&mut world.node, TO_OVERLAY, "overlay0", TcAttachType::Egress);
    for (nth, parties) in families().into_iter().enumerate() {
        let id = 100 + nth as u32;
        world.node.backend(id, parties.served(), 0, BackendState::Active);
        for protocol in [TCP, UDP] {
            world.node.service(parties.service(), protocol, open_service(SERVICE), &[id]);
        }
        world.reach(WORLD[nth], &[parties.router]);
        // As the node's own it arrives by the device of nodes.
        routed(parties.backend, mac);
    }
    world
}

/// Has the other node's network take nothing from endpoints that is not in the tunnel.
fn refuse_outside_the_tunnel(world: &World) {
    world.other.run(|| {
        for Parties { own, backend, .. } in families() {
            let family = if own.is_ipv4() { "-4" } else { "-6" };
            let (from, to) = (backend.to_string(), own.to_string());
            run_ip(&[family, "rule", "add", "from", &from, "to", &to, "prohibit"]);
        }
    });
}

/// Has what asks the node's service be the client: that network's first address is another node's.
fn speaks_as(parties: &Parties) {
    let (own, client) = (parties.own.to_string(), parties.client.to_string());
    let family = if parties.own.is_ipv4() { "-4" } else { "-6" };
    run_ip(&[family, "route", "replace", &own, "dev", "wire0", "src", &client]);
}

fn all_features() -> [Features; 2] {
    [Features::default(), host_firewall()]
}

/// A socket of the other namespace, where clients and backends are.
fn outside_socket(world: &World, at: impl Into<SocketAddr>) -> UdpSocket {
    let at = at.into();
    world.other.run(move || udp_socket(at))
}

/// What the next error of a connected socket is.
fn failure(socket: &UdpSocket) -> ErrorKind {
    loop {
        match socket.recv(&mut [0; 64]).unwrap_err().kind() {
            ErrorKind::Interrupted => {}
            kind => return kind,
        }
    }
}

#[test]
fn a_client_outside_is_answered_through_the_overlay() {
    for features in all_features() {
        let mut world = world(features);
        refuse_outside_the_tunnel(&world);
        for parties in families() {
            let asking = outside_socket(&world, (parties.client, 0));
            let answering = outside_socket(&world, parties.served());
            for _ in 0..2 {
                let seen = ask(&asking, parties.service(), &answering, 500);
                assert_eq!(seen, parties.router);
            }
            world.other.run(move || speaks_as(&parties));
            let listener = world.other.run(move || TcpListener::bind(parties.served()).unwrap());
            let connect = move || TcpStream::connect_timeout(&parties.service(), PATIENCE).unwrap();
            let mut stream = world.other.run(connect);
            let (mut served, from) = listener.accept().unwrap();
            assert_eq!(from.ip(), parties.router);
            served.write_all(b"hello").unwrap();
            let mut got = [0; 5];
            stream.read_exact(&mut got).unwrap();
            assert_eq!(&got, b"hello");
        }
        assert_eq!(world.node.drops(), [].into());
    }
}

#[test]
fn a_flow_that_the_devices_address_stands_for_keeps_it() {
    let mut world = world(Features::default());
    for parties in families() {
        let Parties { client, own, .. } = parties;
        let asking = outside_socket(&world, (client, 0));
        let from = (client, asking.local_addr().unwrap().port());
        let (to, becomes) = ((parties.backend, BACKEND_PORT), (own, 40_000));
        let (protocol, out, back) = (UDP, TupleFlags::OUT, TupleFlags::IN);
        let row = |flags, from, to, becomes| Translation { flags, protocol, from, to, becomes };
        world.node.translate(row(out, from, to, becomes), true);
        world.node.translate(row(back, to, becomes, from), true);
        let answering = outside_socket(&world, parties.served());
        assert_eq!(ask(&asking, parties.service(), &answering, 500), own);
        // The next one has not.
        let asking = outside_socket(&world, (client, 0));
        assert_eq!(ask(&asking, parties.service(), &answering, 500), parties.router);
    }
    assert_eq!(world.node.drops(), [].into());
}

#[test]
fn without_a_routers_address_it_is_the_devices() {
    let mut world = world(Features::default());
    let row: NodeRow = world.node.read_node();
    world.node.node(NodeRow { router_ipv4: [0; 4], router_ipv6: [0; 16], ..row });
    for parties in families() {
        let asking = outside_socket(&world, (parties.client, 0));
        let answering = outside_socket(&world, parties.served());
        assert_eq!(ask(&asking, parties.service(), &answering, 500), parties.own);
    }
    assert_eq!(world.node.drops(), [].into());
}

/// Sockets of a client and of the node that have the same port and ask the same backend.
fn rivals(world: &World, parties: Parties, port: u16) -> [(UdpSocket, SocketAddr); 2] {
    let client = outside_socket(world, (parties.client, port));
    let node = udp_socket((parties.router, port).into());
    [(client, parties.service()), (node, parties.served())]
}

#[test]
fn clients_and_the_node_share_no_port_towards_a_backend() {
    for features in all_features() {
        let mut world = world(features);
        refuse_outside_the_tunnel(&world);
        for (parties, port) in families().into_iter().flat_map(|it| [(it, 40_000), (it, 40_001)]) {
            let answering = outside_socket(&world, parties.served());
            let mut rivals = rivals(&world, parties, port);
            // Either may be the first.
            rivals.rotate_left(usize::from(port % 2));
            let mut ports = Vec::new();
            for (asking, to) in &rivals {
                asking.send_to(b"question", to).unwrap();
                let (_, from) = receive(&answering, &mut [0; 16], "the question");
                assert_eq!(from.ip(), parties.router);
                ports.push(from.port());
            }
            assert_eq!(ports[0], port);
            assert_ne!(ports[1], port);
            for ((asking, to), heard) in rivals.iter().zip(ports) {
                let answer = heard.to_string();
                answering.send_to(answer.as_bytes(), (parties.router, heard)).unwrap();
                let mut buffer = [0; 16];
                let (length, from) = receive(asking, &mut buffer, "the answer");
                assert_eq!((&buffer[..length], from), (answer.as_bytes(), *to));
            }
        }
        assert_eq!(world.node.drops(), [].into());
    }
}

#[test]
fn who_asks_hears_that_the_backend_does_not_listen() {
    for features in all_features() {
        let mut world = world(features);
        refuse_outside_the_tunnel(&world);
        for parties in families() {
            for (asking, to) in rivals(&world, parties, 40_000) {
                asking.connect(to).unwrap();
                asking.send(b"question").unwrap();
                assert_eq!(failure(&asking), ErrorKind::ConnectionRefused, "{to}");
            }
        }
        assert_eq!(world.node.drops(), [].into());
    }
}

#[test]
fn the_backend_hears_that_who_asked_has_gone() {
    for features in all_features() {
        let mut world = world(features);
        refuse_outside_the_tunnel(&world);
        for parties in families() {
            for (asking, to) in rivals(&world, parties, 40_000) {
                let answering = outside_socket(&world, parties.served());
                asking.send_to(b"question", to).unwrap();
                let (_, from) = receive(&answering, &mut [0; 16], "the question");
                drop(asking);
                answering.connect(from).unwrap();
                answering.send(b"answer").unwrap();
                assert_eq!(failure(&answering), ErrorKind::ConnectionRefused, "{from}");
            }
        }
        assert_eq!(world.node.drops(), [].into());
    }
}
