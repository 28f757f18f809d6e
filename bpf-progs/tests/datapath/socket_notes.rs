//! Where it is noted what a socket asked for: in the set of its number, and in a map if that is full.

use crate::common::*;
use aya::maps::{Array, HashMap};
use rustix::net::sockopt::socket_cookie;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;
use volvox_bpf_progs::layouts::*;
use volvox_bpf_progs::maps::{SOCKET_SETS, socket_set};

/// Only a failing test waits this long.
const PATIENCE: Duration = Duration::from_secs(10);

/// A socket that is none of this machine's.
const STRANGER: u64 = 1 << 60;

fn local(v6: bool) -> SocketAddr {
    let address: IpAddr = if v6 { Ipv6Addr::LOCALHOST.into() } else { [127, 0, 0, 1].into() };
    (address, 0).into()
}

/// One of many services.
fn service(v6: bool, port: u16) -> SocketAddr {
    (service_address(local(v6).ip()), port).into()
}

fn udp_socket(v6: bool) -> UdpSocket {
    let socket = UdpSocket::bind(local(v6)).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

/// Makes it the only backend of a service.
fn serve(sockets: &mut Sockets, protocol: u8, port: u16, backend: SocketAddr) {
    let (id, node) = (u32::from(port), &mut sockets.node);
    node.backend(id, backend, 0, BackendState::Active);
    let row = random_service(SERVICE + port);
    node.service(service(backend.is_ipv6(), port), protocol, row, &[id]);
}

/// Asks a service from a socket that is not connected; what answers is its own backend.
fn asks(client: &UdpSocket, at: SocketAddr, backend: &UdpSocket) {
    client.send_to(b"question", at).unwrap();
    let (_, from) = backend.recv_from(&mut [0; 16]).unwrap();
    backend.send_to(b"answer", from).unwrap();
    assert_eq!(client.recv_from(&mut [0; 16]).unwrap(), (6, at));
}

/// How much is noted of sockets of this machine, in sets and in the map of a family.
fn noted(sockets: &mut Sockets, v6: bool) -> (usize, usize) {
    let (mut in_sets, family) = (0, family(v6));
    let is_ours = |socket: &u64| ![0, STRANGER].contains(socket);
    sockets.node.map::<Array<_, SocketSet>>("volvox_sockets", |map| {
        for set in map.iter().map(Result::unwrap) {
            let notes = set.sockets.iter().zip(set.notes);
            in_sets +=
                notes.filter(|(socket, note)| is_ours(socket) && note.family == family).count();
        }
    });
    (in_sets, rows(sockets, v6).iter().filter(|socket| is_ours(socket)).count())
}

fn family(v6: bool) -> u8 {
    if v6 { FAMILY_IPV6 } else { FAMILY_IPV4 }
}

/// Sockets of the rows in the map of a family.
fn rows(sockets: &mut Sockets, v6: bool) -> Vec<u64> {
    let mut all = Vec::new();
    let node = &mut sockets.node;
    if v6 {
        node.map::<HashMap<_, ReverseSk6Key, ReverseSk6Row>>("cilium_lb6_reverse_sk", |map| {
            all.extend(map.keys().map(|key| key.unwrap().cookie));
        });
    } else {
        node.map::<HashMap<_, ReverseSk4Key, ReverseSk4Row>>("cilium_lb4_reverse_sk", |map| {
            all.extend(map.keys().map(|key| key.unwrap().cookie));
        });
    }
    all
}

/// Fills every set, but for so many notes of each, with those of a stranger who uses a family.
fn fill(sockets: &mut Sockets, but: usize, v6: bool) {
    let mut set = SocketSet::default();
    set.sockets[but..].fill(STRANGER);
    for (note, port) in set.notes.iter_mut().zip(1000..) {
        (note.family, note.backend_port) = (family(v6), Be16::new(port));
    }
    sockets.node.map::<Array<_, SocketSet>>("volvox_sockets", |mut map| {
        for index in 0..SOCKET_SETS {
            map.set(index, set, 0).unwrap();
        }
    });
}

#[test]
fn a_closed_socket_is_forgotten() {
    let mut sockets = Sockets::new();
    for but in [SOCKET_NOTES, 1, 0] {
        for v6 in [false, true] {
            fill(&mut sockets, but, !v6);
            let listener = TcpListener::bind(local(v6)).unwrap();
            serve(&mut sockets, TCP, 80, listener.local_addr().unwrap());
            let client = TcpStream::connect(service(v6, 80)).unwrap();
            assert_eq!(client.peer_addr().unwrap(), service(v6, 80));
            assert_eq!(noted(&mut sockets, v6), (1, 0));
            // Who had the place is known by the map.
            let moved = rows(&mut sockets, !v6);
            assert_eq!(moved.contains(&STRANGER), but == 0, "{but} {moved:?}");
            drop(client);
            drop(listener);
            assert_eq!(noted(&mut sockets, v6), (0, 0));
        }
    }
}

#[test]
fn a_note_that_nobody_can_read_gives_way() {
    let mut sockets = Sockets::new();
    sockets.node.map::<Array<_, SocketSet>>("volvox_sockets", |mut map| {
        let set = SocketSet { sockets: [STRANGER; SOCKET_NOTES], ..SocketSet::default() };
        for index in 0..SOCKET_SETS {
            map.set(index, set, 0).unwrap();
        }
    });
    let (client, server) = (udp_socket(false), udp_socket(false));
    serve(&mut sockets, UDP, 80, server.local_addr().unwrap());
    asks(&client, service(false, 80), &server);
    assert_eq!(noted(&mut sockets, false), (1, 0));
    assert_eq!(rows(&mut sockets, false), []);
}

#[test]
fn ipv4_within_ipv6_is_noted_as_ipv4() {
    let mut sockets = Sockets::new();
    let listener = TcpListener::bind(local(false)).unwrap();
    serve(&mut sockets, TCP, 80, listener.local_addr().unwrap());
    let IpAddr::V4(v4) = service(false, 80).ip() else { panic!("it is of IPv4") };
    let mapped: SocketAddr = (v4.to_ipv6_mapped(), 80).into();
    let client = TcpStream::connect(mapped).unwrap();
    assert_eq!(client.peer_addr().unwrap(), mapped);
    assert_eq!([false, true].map(|v6| noted(&mut sockets, v6)), [(1, 0), (0, 0)]);
    drop(client);
    assert_eq!(noted(&mut sockets, false), (0, 0));
}

/// Who reads the map finds the set as the programs do; sockets made one after the other share one.
#[test]
fn neighbours_share_a_set() {
    let mut sockets = Sockets::new();
    let server = udp_socket(false);
    serve(&mut sockets, UDP, 80, server.local_addr().unwrap());
    let clients: Vec<_> = (0..64).map(|_| udp_socket(false)).collect();
    let mut expected = BTreeMap::<u32, usize>::new();
    for client in &clients {
        asks(client, service(false, 80), &server);
        *expected.entry(socket_set(socket_cookie(client).unwrap())).or_default() += 1;
    }
    let fill = |set: &SocketSet| set.sockets.iter().filter(|socket| **socket != 0).count();
    sockets.node.map::<Array<_, SocketSet>>("volvox_sockets", |map| {
        let sets = (0..).zip(map.iter().map(Result::unwrap));
        let found: BTreeMap<_, _> =
            sets.map(|(at, set)| (at, fill(&set))).filter(|(_, fill)| *fill > 0).collect();
        assert_eq!(found, expected);
    });
    assert!(expected.len() < clients.len(), "{expected:?}");
}

#[test]
fn a_socket_may_ask_more_services_than_its_set_has_notes() {
    let mut sockets = Sockets::new();
    for v6 in [false, true] {
        let client = udp_socket(v6);
        let servers: Vec<UdpSocket> = (0..SOCKET_NOTES + 3).map(|_| udp_socket(v6)).collect();
        for (port, server) in (80..).zip(&servers) {
            serve(&mut sockets, UDP, port, server.local_addr().unwrap());
        }
        for _ in 0..2 {
            for (port, server) in (80..).zip(&servers) {
                asks(&client, service(v6, port), server);
            }
            assert_eq!(noted(&mut sockets, v6), (SOCKET_NOTES, servers.len() - SOCKET_NOTES));
        }
        drop(client);
        // Rows of the map grow old.
        assert_eq!(noted(&mut sockets, v6), (0, servers.len() - SOCKET_NOTES));
    }
}

#[test]
fn a_backend_is_of_the_service_that_was_asked_last() {
    let mut sockets = Sockets::new();
    for but in [SOCKET_NOTES, 0] {
        for v6 in [false, true] {
            fill(&mut sockets, but, v6);
            let (client, server) = (udp_socket(v6), udp_socket(v6));
            for port in [80, 81] {
                serve(&mut sockets, UDP, port, server.local_addr().unwrap());
            }
            for port in [80, 81, 80, 80, 81, 81, 80] {
                asks(&client, service(v6, port), &server);
            }
        }
    }
}

#[test]
fn a_socket_that_is_connected_anew_hears_both() {
    let mut sockets = Sockets::new();
    for v6 in [false, true] {
        let (client, servers) = (udp_socket(v6), [udp_socket(v6), udp_socket(v6)]);
        for (port, server) in (80..).zip(&servers) {
            serve(&mut sockets, UDP, port, server.local_addr().unwrap());
        }
        client.connect(service(v6, 80)).unwrap();
        client.send(b"question").unwrap();
        let (_, from) = servers[0].recv_from(&mut [0; 16]).unwrap();
        servers[0].send_to(b"answer", from).unwrap();
        client.connect(service(v6, 81)).unwrap();
        assert_eq!(client.peer_addr().unwrap(), service(v6, 81));
        // It came before.
        assert_eq!(client.recv_from(&mut [0; 16]).unwrap(), (6, service(v6, 80)));
        assert_eq!(noted(&mut sockets, v6), (2, 0));
        drop(client);
        assert_eq!(noted(&mut sockets, v6), (0, 0));
    }
}
