//! An endpoint at the interface of another CNI plugin: neighbours and delivery are that plugin's, policy
//! is asked where its packets come in and go out.

use std::{
    io::ErrorKind,
    net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket},
    time::{Duration, Instant},
};

use aya::programs::tc::TcAttachOptions;
use aya::programs::{LinkOrder, TcAttachType};
use volvox_bpf_progs::layouts::*;
use volvox_bpf_progs::object::{FROM_CONTAINER, TO_CONTAINER};

use crate::common::outside::{World, open_service, route_outside};
use crate::common::*;

/// Only a failing test waits this long.
const PATIENCE: Duration = Duration::from_secs(10);
/// Long enough for a packet that would arrive.
const SILENCE: Duration = Duration::from_millis(300);
const REQUEST: u16 = 1;
const BROADCAST: Mac = [0xff; 6];

fn chained(endpoint: &Endpoint) -> ConfigRow {
    let config = endpoint.config();
    ConfigRow { flags: config.flags | ConfigFlags::CHAINED, ..config }
}

fn open() -> Vec<(PolicyKey, PolicyRow)> {
    [Direction::Egress, Direction::Ingress]
        .map(|direction| PolicyKey::any(direction, 0))
        .map(|key| (key, PolicyRow::allow(&key, 1)))
        .to_vec()
}

#[test]
fn its_neighbours_are_the_other_plugins_and_it_tells_of_its_own_address_only() {
    let mut node = Node::new();
    let (a, b) = (node.endpoint(1), node.endpoint(2));
    node.configure(chained(&a));
    let ask =
        |from| ethernet((a.mac, BROADCAST), 0x0806, &arp(REQUEST, (a.mac, from), ([0; 6], b.ipv4)));
    let frame = ask(a.ipv4);
    let got = node.send(&a, &frame);
    assert_eq!((got.action, got.frame), (OK, frame), "nobody answers here");
    assert_eq!(node.drop_of(|node| node.send(&a, &ask(b.ipv4))), Some(132), "forged");
    let frame = solicitation(a.mac, a.ipv6, b.ipv6);
    let got = node.send(&a, &frame);
    assert_eq!((got.action, got.frame), (OK, frame));
    let forged = solicitation(a.mac, b.ipv6, a.ipv6);
    assert_eq!(node.drop_of(|node| node.send(&a, &forged)), Some(132));
    // Without the flag the gateway answers.
    node.configure(a.config());
    assert_eq!(node.send(&a, &ask(a.ipv4)).action, REDIRECT);
}

#[test]
fn what_it_sends_goes_on_as_it_is_with_its_identity() {
    let mut node = Node::new();
    let (a, b) = (node.endpoint(1), node.endpoint(2));
    node.rules(&a, &open());
    node.configure(chained(&a));
    for dst in [b.v4(), b.v6(), "192.0.2.7".parse().unwrap(), "2001:db8::7".parse().unwrap()] {
        let sent = udp(a.ip(dst), dst, 1000, 80);
        let got = node.send(&a, &sent);
        assert_eq!(
            (got.action, got.frame, got.mark),
            (OK, sent, a.identity << 16 | 0x0f00),
            "{dst}"
        );
    }
    let forged = udp(b.v4(), a.v4(), 1000, 80);
    assert_eq!(node.drop_of(|node| node.send(&a, &forged)), Some(132));
    node.rules(&a, &[]);
    let denied = udp(a.v4(), b.v4(), 1001, 80);
    assert_eq!(node.drop_of(|node| node.send(&a, &denied)), Some(133));
}

#[test]
fn what_is_for_it_goes_by_the_stack_and_its_policy_is_asked_there() {
    let mut node = Node::new();
    let (a, b) = (node.endpoint(1), node.endpoint(2));
    node.rules(&a, &open());
    node.configure(chained(&b));
    for (src, dst) in [(a.v4(), b.v4()), (a.v6(), b.v6())] {
        let sent = udp(src, dst, 1000, 80);
        let got = node.send(&a, &sent);
        assert_eq!(
            (got.action, &got.frame),
            (OK, &sent),
            "its policy denies, and is not asked yet"
        );
        let mark = a.identity << 16 | 0x0f00;
        assert_eq!(got.mark, mark);
        assert_eq!(node.drop_of(|node| node.deliver(&b, mark, &sent)), Some(133), "{src}");
    }
    let key = PolicyKey::ports(Direction::Ingress, a.identity, UDP, 80, 16);
    node.rules(&b, &[(key, PolicyRow::allow(&key, 1))]);
    for (src, dst) in [(a.v4(), b.v4()), (a.v6(), b.v6())] {
        let sent = udp(src, dst, 1000, 80);
        assert_eq!(node.deliver(&b, a.identity << 16 | 0x0f00, &sent).action, OK);
        let other = udp(src, dst, 1000, 81);
        assert_eq!(
            node.drop_of(|node| node.deliver(&b, a.identity << 16 | 0x0f00, &other)),
            Some(133)
        );
        // The answer needs no rule.
        let answer = node.send(&b, &udp(dst, src, 80, 1000));
        assert_eq!(answer.action, OK);
    }
}

#[test]
fn from_the_wire_only_what_a_service_sends_is_handed_over() {
    let mut world = World::new();
    route_outside();
    let (a, up) = (world.a, world.up);
    world.node.rules(&a, &open());
    world.node.configure(chained(&a));
    for outside in ["198.51.100.7", "2001:db8:9::7"] {
        let outside: IpAddr = outside.parse().unwrap();
        let sent = udp(outside, a.ip(outside), 4000, 80);
        let got = world.node.receive(&up, &sent);
        assert_eq!((got.action, got.frame), (OK, sent), "{outside}");
        let own = up.ip(outside);
        let (id, number) = if own.is_ipv4() { (7, 7) } else { (8, 1007) };
        world.node.backend(number, (a.ip(outside), 8080).into(), 0, BackendState::Active);
        world.node.service((own, 30_080).into(), UDP, open_service(id), &[number]);
        let asked = world.node.receive(&up, &udp(outside, own, 4000, 30_080));
        assert_eq!(asked.action, REDIRECT, "{outside}");
        let answer = world.node.send(&a, &udp(a.ip(outside), outside, 8080, 4000));
        assert_eq!(answer.action, REDIRECT, "past the stack, as it came");
    }
}

/// Two namespaces at a bridge, whose veths another plugin made: the programs only stand at them.
struct Bridge {
    node: Node,
    pods: [(Endpoint, Namespace); 2],
}

impl Bridge {
    fn new() -> Self {
        let mut node = Node::new();
        node.become_gateway();
        run_ip(&["link", "add", "cni0", "type", "bridge"]);
        run_ip(&["address", "add", "10.1.0.253/24", "dev", "cni0"]);
        run_ip(&["address", "add", "f00d::fffe/64", "dev", "cni0", "nodad"]);
        run_ip(&["link", "set", "cni0", "up"]);
        let pods = [1, 2].map(|id| {
            let (endpoint, namespace) = (node.endpoint(id), Namespace::new());
            let (host, peer) = (format!("lxc{id}"), format!("eth{id}"));
            let mac = endpoint.mac.map(|byte| format!("{byte:02x}")).join(":");
            run_ip(&["link", "set", &host, "master", "cni0", "up"]);
            run_ip(&["link", "set", &peer, "address", &mac, "netns", &namespace.path]);
            namespace.run(move || inside(&peer, &endpoint));
            node.configure(chained(&endpoint));
            for (name, hook) in
                [(FROM_CONTAINER, TcAttachType::Ingress), (TO_CONTAINER, TcAttachType::Egress)]
            {
                let options = TcAttachOptions::TcxOrder(LinkOrder::default());
                node.program(name).attach_with_options(&host, hook, options).unwrap();
            }
            (endpoint, namespace)
        });
        Self { node, pods }
    }

    fn families(&self) -> [(IpAddr, IpAddr); 2] {
        let (a, b) = (self.pods[0].0, self.pods[1].0);
        [(a.v4(), b.v4()), (a.v6(), b.v6())]
    }

    fn connects(&self, dst: IpAddr, port: u16, within: Duration) -> bool {
        let at = SocketAddr::from((dst, port));
        self.pods[0].1.run(move || TcpStream::connect_timeout(&at, within).is_ok())
    }
}

fn inside(interface: &str, endpoint: &Endpoint) {
    std::fs::write(format!("/proc/sys/net/ipv6/conf/{interface}/accept_dad"), "0").unwrap();
    run_ip(&["link", "set", "lo", "up"]);
    run_ip(&["link", "set", interface, "up"]);
    run_ip(&["address", "add", &format!("{}/24", endpoint.ipv4), "dev", interface]);
    run_ip(&["address", "add", &format!("{}/64", endpoint.ipv6), "dev", interface, "nodad"]);
    run_ip(&["route", "add", "default", "via", "10.1.0.253"]);
    run_ip(&["route", "add", "default", "via", "f00d::fffe"]);
}

#[test]
fn at_a_bridge_policy_allows_and_denies() {
    let mut bridge = Bridge::new();
    let (a, b) = (bridge.pods[0].0, bridge.pods[1].0);
    bridge.node.rules(&a, &[open()[0]]);
    let key = PolicyKey::ports(Direction::Ingress, a.identity, TCP, 80, 16);
    bridge.node.rules(&b, &[(key, PolicyRow::allow(&key, 1))]);
    for (_, dst) in bridge.families() {
        let ports = [80, 81].map(|port| {
            bridge.pods[1].1.run(move || TcpListener::bind((dst, port)).expect("it is free"))
        });
        assert!(bridge.connects(dst, 80, PATIENCE), "allowed: {dst}");
        assert!(!bridge.connects(dst, 81, SILENCE), "denied: {dst}");
        drop(ports);
    }
    let denied = bridge.node.drops();
    assert!(denied.get(&133).is_some_and(|count| *count >= 2), "{denied:?}");
    // What the sender may not, never reaches the bridge.
    bridge.node.rules(&a, &[]);
    bridge.node.rules(&b, &open());
    for (_, dst) in bridge.families() {
        let _listener = bridge.pods[1].1.run(move || TcpListener::bind((dst, 82)).unwrap());
        assert!(!bridge.connects(dst, 82, SILENCE), "{dst}");
    }
}

#[test]
fn a_service_whose_backend_is_at_the_same_bridge_answers() {
    let mut bridge = Bridge::new();
    let [a, b] = [bridge.pods[0].0, bridge.pods[1].0];
    bridge.node.rules(&a, &open());
    bridge.node.rules(&b, &open());
    for (number, (src, dst)) in (1u16..).zip(bridge.families()) {
        let frontend: IpAddr = if dst.is_ipv4() { "10.96.0.9" } else { "fd96::9" }.parse().unwrap();
        let backend = u32::from(number);
        bridge.node.backend(backend, (dst, 8080).into(), 0, BackendState::Active);
        bridge.node.service((frontend, 80).into(), UDP, random_service(number), &[backend]);
        let bind = |at| {
            move || {
                let socket = UdpSocket::bind(at).unwrap();
                socket.set_read_timeout(Some(PATIENCE)).unwrap();
                socket
            }
        };
        let asking = bridge.pods[0].1.run(bind(SocketAddr::from((src, 0))));
        let answering = bridge.pods[1].1.run(bind(SocketAddr::from((dst, 8080))));
        asking.send_to(b"who", (frontend, 80)).unwrap();
        let mut buffer = [0; 8];
        let (_, from) = receive(&answering, &mut buffer);
        assert_eq!(from.ip(), src);
        answering.send_to(b"me", from).unwrap();
        assert_eq!(receive(&asking, &mut buffer).1, SocketAddr::from((frontend, 80)));
    }
    assert_eq!(bridge.node.drops().get(&133), None);
}

fn receive(socket: &UdpSocket, buffer: &mut [u8]) -> (usize, SocketAddr) {
    let until = Instant::now() + PATIENCE;
    loop {
        match socket.recv_from(buffer) {
            Ok(received) => return received,
            Err(error) if error.kind() == ErrorKind::Interrupted && Instant::now() < until => {}
            Err(error) => panic!("nothing arrives: {error}"),
        }
    }
}
