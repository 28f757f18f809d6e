//! Load balancing by socket: a socket that asks for a service speaks with a backend and never hears
//! of it.

use crate::common::*;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;
use volvox_bpf_progs::SocketHook;
use volvox_bpf_progs::layouts::*;

/// Only a failing test waits this long.
const PATIENCE: Duration = Duration::from_secs(10);

/// A service in both families; its backends are on the loopback interface.
struct World {
    sockets: Sockets,
}

impl World {
    fn new() -> Self {
        Self { sockets: Sockets::new() }
    }

    /// Makes these the backends of the service's port 80.
    fn serve(&mut self, protocol: u8, backends: &[SocketAddr]) {
        let node = &mut self.sockets.node;
        let ids: Vec<u32> = (1..).take(backends.len()).collect();
        for (id, at) in ids.iter().zip(backends) {
            node.backend(*id, *at, 0, BackendState::Active);
        }
        let like = backends[0].ip();
        node.service((service_address(like), 80).into(), protocol, random_service(SERVICE), &ids);
    }
}

fn local(v6: bool) -> SocketAddr {
    let address: IpAddr = if v6 { Ipv6Addr::LOCALHOST.into() } else { [127, 0, 0, 1].into() };
    (address, 0).into()
}

fn service(v6: bool) -> SocketAddr {
    (service_address(local(v6).ip()), 80).into()
}

fn udp_socket(v6: bool) -> UdpSocket {
    let socket = UdpSocket::bind(local(v6)).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

#[test]
fn a_stream_is_connected_to_a_backend() {
    let mut world = World::new();
    for v6 in [false, true] {
        let listener = TcpListener::bind(local(v6)).unwrap();
        world.serve(TCP, &[listener.local_addr().unwrap()]);
        let mut client = TcpStream::connect(service(v6)).unwrap();
        let (mut server, from) = listener.accept().unwrap();
        assert_eq!(from, client.local_addr().unwrap());
        assert_eq!(client.peer_addr().unwrap(), service(v6), "it does not hear of the backend");
        client.write_all(b"hello").unwrap();
        let mut got = [0; 5];
        server.read_exact(&mut got).unwrap();
        assert_eq!(&got, b"hello");
    }
}

#[test]
fn a_connected_datagram_socket_speaks_with_a_backend() {
    let mut world = World::new();
    for v6 in [false, true] {
        let server = udp_socket(v6);
        world.serve(UDP, &[server.local_addr().unwrap()]);
        let client = udp_socket(v6);
        client.connect(service(v6)).unwrap();
        assert_eq!(client.peer_addr().unwrap(), service(v6));
        client.send(b"question").unwrap();
        let (_, from) = server.recv_from(&mut [0; 16]).unwrap();
        server.send_to(b"answer", from).unwrap();
        assert_eq!(client.recv_from(&mut [0; 16]).unwrap(), (6, service(v6)));
    }
}

#[test]
fn datagrams_of_an_unconnected_socket_come_back_from_the_service() {
    let mut world = World::new();
    for v6 in [false, true] {
        let servers = [udp_socket(v6), udp_socket(v6)];
        world.serve(UDP, &servers.each_ref().map(|server| server.local_addr().unwrap()));
        let client = udp_socket(v6);
        let mut heard = [0; 2];
        for server in &servers {
            server.set_nonblocking(true).unwrap();
        }
        for _ in 0..100 {
            client.send_to(b"question", service(v6)).unwrap();
            for (server, heard) in servers.iter().zip(&mut heard) {
                if let Ok((_, from)) = server.recv_from(&mut [0; 16]) {
                    *heard += 1;
                    server.send_to(b"answer", from).unwrap();
                }
            }
            assert_eq!(client.recv_from(&mut [0; 16]).unwrap(), (6, service(v6)));
        }
        assert!(heard.iter().all(|count| *count > 0), "each datagram chooses: {heard:?}");
    }
}

#[test]
fn ipv4_within_ipv6_is_ipv4() {
    let mut world = World::new();
    let IpAddr::V4(v4) = service(false).ip() else { panic!("it is of IPv4") };
    let mapped: SocketAddr = (v4.to_ipv6_mapped(), 80).into();
    let listener = TcpListener::bind(local(false)).unwrap();
    world.serve(TCP, &[listener.local_addr().unwrap()]);
    let client = TcpStream::connect(mapped).unwrap();
    listener.accept().unwrap();
    assert_eq!(client.peer_addr().unwrap(), mapped);
    let server = udp_socket(false);
    world.serve(UDP, &[server.local_addr().unwrap()]);
    let client = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    client.send_to(b"question", mapped).unwrap();
    let (_, from) = server.recv_from(&mut [0; 16]).unwrap();
    server.send_to(b"answer", from).unwrap();
    assert_eq!(client.recv_from(&mut [0; 16]).unwrap(), (6, mapped));
}

#[test]
fn what_is_no_service_is_left_alone() {
    let world = World::new();
    for v6 in [false, true] {
        let server = udp_socket(v6);
        let at = server.local_addr().unwrap();
        let client = udp_socket(v6);
        client.send_to(b"question", at).unwrap();
        let (_, from) = server.recv_from(&mut [0; 16]).unwrap();
        server.send_to(b"answer", from).unwrap();
        assert_eq!(client.recv_from(&mut [0; 16]).unwrap(), (6, at));
        let listener = TcpListener::bind(local(v6)).unwrap();
        let at = listener.local_addr().unwrap();
        assert_eq!(TcpStream::connect(at).unwrap().peer_addr().unwrap(), at);
    }
    drop(world);
}

#[test]
fn a_service_without_backends_or_port_refuses() {
    let mut world = World::new();
    for v6 in [false, true] {
        for protocol in [TCP, UDP] {
            let row = random_service(SERVICE);
            world.sockets.node.service(service(v6), protocol, row, &[]);
        }
        for at in [service(v6), (service(v6).ip(), 81).into()] {
            let refused = TcpStream::connect(at).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
            let client = udp_socket(v6);
            let refused = client.send_to(b"question", at).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
            let refused = client.connect(at).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        }
    }
}

#[test]
fn sockets_of_a_namespace_keep_their_backend() {
    let mut world = World::new();
    for v6 in [false, true] {
        let servers: [UdpSocket; 4] = std::array::from_fn(|_| udp_socket(v6));
        world.serve(UDP, &servers.each_ref().map(|server| server.local_addr().unwrap()));
        for server in &servers {
            server.set_nonblocking(true).unwrap();
        }
        for id in 1..=4 {
            let key = AffinityMatchKey::new(id, SERVICE);
            world.sockets.node.put("cilium_lb_affinity_match", key, 0u8);
        }
        let backend = LbRow::choice(LbAlgorithm::Random, 100);
        let row = LbRow { backend, flags: LbFlags::AFFINITY, ..random_service(SERVICE) };
        let key = LbKey::new(service(v6), UDP, LbScope::External);
        world.sockets.node.slots(key, row, &[1, 2, 3, 4], &[]);
        for _ in 0..50 {
            udp_socket(v6).send_to(b"question", service(v6)).unwrap();
        }
        let heard = servers
            .each_ref()
            .map(|server| std::iter::from_fn(|| server.recv(&mut [0; 16]).ok()).count());
        assert_eq!(heard.iter().max(), Some(&50), "{heard:?}");
        let cookie = netns_cookie().to_ne_bytes();
        let noted: Option<AffinityRow> = if v6 {
            let mut client = [0; 16];
            client[..8].copy_from_slice(&cookie);
            let rev_nat = Be16::new(SERVICE);
            let key = Affinity6Key { client, rev_nat, netns_cookie: 1, ..Affinity6Key::default() };
            world.sockets.node.read("cilium_lb6_affinity", key)
        } else {
            let rev_nat = Be16::new(SERVICE);
            let key = Affinity4Key {
                client: cookie,
                rev_nat,
                netns_cookie: 1,
                ..Affinity4Key::default()
            };
            world.sockets.node.read("cilium_lb4_affinity", key)
        };
        assert!(noted.is_some(), "the namespace is the client");
    }
}

#[test]
fn a_port_of_a_service_on_the_node_is_taken() {
    let mut world = World::new();
    for v6 in [false, true] {
        let all: IpAddr = if v6 { Ipv6Addr::UNSPECIFIED.into() } else { [0, 0, 0, 0].into() };
        for (port, flag) in [
            (30_001, LbFlags::NODE_PORT),
            (30_002, LbFlags::HOST_PORT),
            (30_003, LbFlags::LOAD_BALANCER),
            (30_004, LbFlags::EXTERNAL_IP),
        ] {
            let key = LbKey::new((all, port).into(), TCP, LbScope::External);
            let row = LbRow { flags: flag, ..random_service(SERVICE) };
            world.sockets.node.lb_row(key, row);
            for at in [all, local(v6).ip()] {
                let refused = TcpListener::bind((at, port)).unwrap_err();
                assert_eq!(refused.kind(), ErrorKind::AddrInUse, "{at} {port}");
                UdpSocket::bind((at, port)).expect("another protocol has another port");
            }
        }
        // A service that is only inside the cluster takes no port of the node.
        let key = LbKey::new((all, 30_005).into(), TCP, LbScope::External);
        world.sockets.node.lb_row(key, random_service(SERVICE));
        TcpListener::bind((all, 30_005)).unwrap();
    }
}

/// A service at this port of all the node's addresses, for TCP and UDP.
fn taken(sockets: &mut Sockets, port: u16) {
    for all in ["0.0.0.0", "::"] {
        for protocol in [TCP, UDP] {
            let at = (all.parse::<IpAddr>().unwrap(), port).into();
            let key = LbKey::new(at, protocol, LbScope::External);
            let row = LbRow { flags: LbFlags::NODE_PORT, ..random_service(SERVICE) };
            sockets.node.lb_row(key, row);
        }
    }
}

#[test]
fn a_port_that_is_asked_for_is_refused_before_the_socket_has_it() {
    // Nothing looks at ports that sockets have got.
    let mut sockets = Sockets::with(&[SocketHook::Bind4, SocketHook::Bind6]);
    taken(&mut sockets, 30_001);
    for v6 in [false, true] {
        let at = |port| SocketAddr::from((local(v6).ip(), port));
        let refused = TcpListener::bind(at(30_001)).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::AddrInUse);
        let refused = UdpSocket::bind(at(30_001)).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::AddrInUse);
        for port in [30_002, 0] {
            TcpListener::bind(at(port)).unwrap();
            UdpSocket::bind(at(port)).unwrap();
        }
        let pod = Namespace::new();
        pod.run(|| drop(TcpListener::bind(("0.0.0.0", 30_001)).expect("it is another's port")));
    }
}

#[test]
fn a_port_that_the_kernel_chooses_is_no_services() {
    let mut sockets = Sockets::new();
    taken(&mut sockets, 30_001);
    let range = "/proc/sys/net/ipv4/ip_local_port_range";
    std::fs::write(range, "30001 30001").unwrap();
    for v6 in [false, true] {
        let refused = TcpListener::bind(local(v6)).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::AddrInUse);
        let refused = UdpSocket::bind(local(v6)).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::AddrInUse);
    }
}

#[test]
fn a_pods_ports_are_its_own() {
    let mut world = World::new();
    let key = LbKey::new(([0, 0, 0, 0], 30_001).into(), TCP, LbScope::External);
    let row = LbRow { flags: LbFlags::NODE_PORT, ..random_service(SERVICE) };
    world.sockets.node.lb_row(key, row);
    let pod = Namespace::new();
    pod.run(|| drop(TcpListener::bind(("0.0.0.0", 30_001)).expect("it is another namespace")));
    TcpListener::bind(("0.0.0.0", 30_001)).expect_err("this one is the node's");
}

#[test]
fn the_node_reaches_its_ports_by_its_loopback_and_a_pod_does_not() {
    let mut world = World::new();
    for v6 in [false, true] {
        let listener = TcpListener::bind(local(v6)).unwrap();
        let all: IpAddr = if v6 { Ipv6Addr::UNSPECIFIED.into() } else { [0, 0, 0, 0].into() };
        world.sockets.node.backend(1, listener.local_addr().unwrap(), 0, BackendState::Active);
        let key = LbKey::new((all, 30_001).into(), TCP, LbScope::External);
        let row = LbRow { flags: LbFlags::NODE_PORT, ..random_service(SERVICE) };
        world.sockets.node.slots(key, row, &[1], &[]);
        for at in [local(v6).ip(), all] {
            let client = TcpStream::connect((at, 30_001)).unwrap();
            let (_, from) = listener.accept().unwrap();
            assert_eq!(from, client.local_addr().unwrap());
            assert_eq!(client.peer_addr().unwrap(), (at, 30_001).into());
            // Another port, or protocol, is its own.
            let refused = TcpStream::connect((at, 30_002)).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        }
        let pod = Namespace::new();
        pod.run(move || {
            assert!(
                std::process::Command::new("ip")
                    .args(["link", "set", "lo", "up"])
                    .status()
                    .unwrap()
                    .success()
            );
            let own = TcpListener::bind((local(v6).ip(), 30_001)).unwrap();
            for at in [local(v6).ip(), all] {
                TcpStream::connect((at, 30_001)).unwrap();
                own.accept().unwrap();
            }
        });
    }
}
