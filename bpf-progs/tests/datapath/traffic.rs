//! Sockets in real namespaces, with the programs attached where they belong.

use crate::common::*;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};
use volvox_bpf_progs::layouts::*;

/// Only a failing test waits this long.
const PATIENCE: Duration = Duration::from_secs(10);

const HOST: u32 = 1;

fn allow(key: PolicyKey) -> (PolicyKey, PolicyRow) {
    (key, PolicyRow::allow(&key, 0))
}

/// Two pods: the first may send anywhere, the second hears it on port 80.
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
        node.rules(&a, &[allow(PolicyKey::any(Direction::Egress, 0))]);
        let ports = [TCP, UDP]
            .map(|protocol| PolicyKey::ports(Direction::Ingress, a.identity, protocol, 80, 16));
        node.rules(&b, &ports.map(allow));
        Self { node, pods }
    }

    fn families(&self) -> [(IpAddr, IpAddr); 2] {
        let (a, b) = (self.pods[0].0, self.pods[1].0);
        [(a.v4(), b.v4()), (a.v6(), b.v6())]
    }
}

fn udp_socket(at: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind(at).expect("the address is this namespace's");
    socket.set_read_timeout(Some(PATIENCE)).expect("the time is not zero");
    socket
}

/// Receives; a wait with a limit may be interrupted by anything that stops the process for a moment.
fn receive(socket: &UdpSocket, buffer: &mut [u8], what: &str) -> (usize, SocketAddr) {
    loop {
        match socket.recv_from(buffer) {
            Ok(received) => return received,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => panic!("{what} does not arrive: {error}"),
        }
    }
}

/// Sends both ways between two sockets.
fn converse(asking: &UdpSocket, answering: &UdpSocket, bytes: usize) {
    let (question, mut buffer) = (vec![7; bytes], vec![0; bytes + 1]);
    asking
        .send_to(&question, answering.local_addr().expect("it is bound"))
        .expect("the route exists");
    let (length, from) = receive(answering, &mut buffer, "the question");
    assert_eq!(&buffer[..length], question);
    answering.send_to(b"yes", from).expect("the way back exists");
    assert_eq!(receive(asking, &mut buffer, "the answer").0, 3);
}

#[test]
fn udp_goes_and_comes_back() {
    let world = World::new();
    let [(_, first), (_, second)] = &world.pods;
    for (src, dst) in world.families() {
        let asking = first.run(move || udp_socket((src, 0).into()));
        let answering = second.run(move || udp_socket((dst, 80).into()));
        for _ in 0..20 {
            converse(&asking, &answering, 100);
        }
    }
}

#[test]
fn tcp_carries_a_megabyte_and_closes() {
    let mut world = World::new();
    let [(_, first), (_, second)] = &world.pods;
    for (src, dst) in world.families() {
        let listener = second.run(move || TcpListener::bind((dst, 80)).expect("the port is free"));
        let sent: Vec<u8> = (0..1_000_000u32).map(|n| n as u8).collect();
        let expected = sent.clone();
        let receiver = std::thread::spawn(move || {
            let (mut stream, from) = listener.accept().expect("somebody connects");
            let mut got = Vec::new();
            stream.read_to_end(&mut got).expect("the stream ends");
            (from.ip(), got == expected)
        });
        first.run(move || {
            let mut stream = TcpStream::connect_timeout(&(dst, 80).into(), PATIENCE)
                .expect("port 80 is allowed");
            stream.write_all(&sent).expect("the receiver reads");
        });
        assert_eq!(receiver.join().expect("the receiver does not panic"), (src, true));
    }
    assert_eq!(world.node.drops(), [].into());
}

#[test]
fn a_forbidden_port_stays_silent() {
    let mut world = World::new();
    for (src, dst) in world.families() {
        let asking = world.pods[0].1.run(move || udp_socket((src, 0).into()));
        let before = world.node.drops().get(&133).copied().unwrap_or(0);
        asking.send_to(b"hello", (dst, 81)).unwrap();
        let deadline = Instant::now() + PATIENCE;
        while world.node.drops().get(&133).copied().unwrap_or(0) == before {
            assert!(Instant::now() < deadline, "neither dropped nor counted");
        }
    }
}

#[test]
fn the_host_and_a_pod_talk() {
    let mut world = World::new();
    let (b, _) = world.pods[1];
    world.node.rules(
        &b,
        &[
            allow(PolicyKey::ports(Direction::Ingress, HOST, UDP, 80, 16)),
            allow(PolicyKey::ports(Direction::Egress, HOST, UDP, 53, 16)),
        ],
    );
    for (_, dst) in world.families() {
        let host: IpAddr = if dst.is_ipv4() { GATEWAY.0.into() } else { GATEWAY.1.into() };
        let here = udp_socket((host, 53).into());
        let there = world.pods[1].1.run(move || udp_socket((dst, 80).into()));
        converse(&here, &there, 100);
        let there = world.pods[1].1.run(move || udp_socket((dst, 0).into()));
        converse(&there, &here, 100);
    }
    assert_eq!(world.node.drops(), [].into());
}

#[test]
fn large_datagrams_pass_where_no_port_is_asked_for() {
    let mut world = World::new();
    let (a, b) = (world.pods[0].0, world.pods[1].0);
    world.node.rules(&b, &[allow(PolicyKey::any(Direction::Ingress, a.identity))]);
    let [(_, first), (_, second)] = &world.pods;
    for (src, dst) in world.families() {
        let asking = first.run(move || udp_socket((src, 0).into()));
        let answering = second.run(move || udp_socket((dst, 80).into()));
        converse(&asking, &answering, 5000);
    }
}
