//! Sockets that are connected to a backend which is gone: the rows are written by hand, the sockets are
//! real.

use std::{
    io::{self, ErrorKind, Read},
    net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket},
    os::fd::{AsFd, AsRawFd},
};

use rustix::net::sockopt::socket_cookie;
use volvox_actors::{
    model::{BackendId, L4Address, ServiceId, Transport},
    ports::{BackendRow, BackendState, KernelOp, KernelOutcome, ServiceKeys, ServiceRows},
};
use volvox_bpf_progs::{
    layouts::{
        FAMILY_IPV4, FAMILY_IPV6, ReverseSk4Key, ReverseSk4Row, ReverseSk6Key, ReverseSk6Row,
        SocketSet,
    },
    maps::socket_set,
};
use volvox_system::{
    netlink::{Protocol, Socket},
    netns::Netns,
};

use super::{super::stale_sockets, sandbox::Sandbox};
use crate::datapath::{Datapath, DatapathConfig};

/// A socket of the calling thread's namespace that is connected there, where nobody need listen.
fn connected(to: SocketAddr) -> UdpSocket {
    let any: IpAddr = if to.is_ipv4() { [0; 4].into() } else { [0; 16].into() };
    let socket = UdpSocket::bind((any, 0)).unwrap();
    socket.connect(to).unwrap();
    socket.set_nonblocking(true).unwrap();
    socket
}

/// Notes, in the set of its number, that a socket asked for a service.
fn note_in_set(datapath: &Datapath, socket: &UdpSocket) {
    let (maps, cookie) = (&datapath.maps.services, socket_cookie(socket).unwrap());
    let at = socket.peer_addr().unwrap();
    let mut set = SocketSet::default();
    set.sockets[2] = cookie;
    let note = &mut set.notes[2];
    note.backend_port = at.port().into();
    match at.ip() {
        IpAddr::V4(ip) => {
            note.backend[..4].copy_from_slice(&ip.octets());
            note.family = FAMILY_IPV4;
        }
        IpAddr::V6(ip) => (note.backend, note.family) = (ip.octets(), FAMILY_IPV6),
    }
    maps.notes.put(socket_set(cookie), &set);
}

/// Notes the same in the map for what finds no room there.
fn note(datapath: &Datapath, socket: &UdpSocket) {
    note_of(datapath, socket_cookie(socket).unwrap(), socket.peer_addr().unwrap());
}

fn note_of(datapath: &Datapath, cookie: u64, peer: SocketAddr) {
    let maps = &datapath.maps.services;
    match peer {
        SocketAddr::V4(at) => {
            let (address, port) = (at.ip().octets(), at.port().into());
            let key = ReverseSk4Key { cookie, address, port, pad: 0 };
            maps.sockets4.put(&key, &ReverseSk4Row::default()).unwrap();
        }
        SocketAddr::V6(at) => {
            let (address, port) = (at.ip().octets(), at.port().into());
            let key = ReverseSk6Key { cookie, address, port, pad: [0; 6] };
            maps.sockets6.put(&key, &ReverseSk6Row::default()).unwrap();
        }
    }
}

fn notes(datapath: &Datapath) -> usize {
    let (mut count, maps) = (0, &datapath.maps.services);
    maps.sockets4.for_each(|_, _| count += 1).unwrap();
    maps.sockets6.for_each(|_, _| count += 1).unwrap();
    count + maps.notes.all().unwrap().len()
}

/// What the socket says to who reads it.
fn heard(socket: &UdpSocket) -> ErrorKind {
    let said: io::Result<usize> = socket.recv(&mut [0]);
    said.unwrap_err().kind()
}

fn up() {
    Socket::open().unwrap().set_link_up(1).unwrap();
}

#[test]
fn sockets_of_backends_that_are_gone_end_wherever_they_are() {
    Sandbox::run(|sandbox| {
        up();
        let (datapath, pod) = (sandbox.open(), Netns::create().unwrap());
        pod.run(up).unwrap();
        for address in [IpAddr::from([127, 0, 0, 1]), "::1".parse().unwrap()] {
            let [here, gone] = [4000, 4001].map(|port| SocketAddr::new(address, port));
            let at = L4Address { address, port: here.port(), transport: Transport::UDP };
            let row = BackendRow { at, state: BackendState::Active, zone: 0 };
            let rows = ServiceRows::Members(vec![((ServiceId(0), BackendId(1)), row)]);
            datapath.maps.services.put(rows).unwrap();
            let in_pod = || pod.run(|| connected(gone)).unwrap();
            let (retained, not_noted, stale) = (connected(here), connected(gone), connected(gone));
            let (of_pod, of_pod_not_noted) = (in_pod(), in_pod());
            note(&datapath, &retained);
            note_in_set(&datapath, &stale);
            note(&datapath, &of_pod);
            let path = format!("/proc/self/fd/{}", pod.as_fd().as_raw_fd());
            let namespaces = [path, "/run/netns/gone".to_owned()].into();
            let op = KernelOp::EndSockets { namespaces };
            let [done] = super::port::run(sandbox, vec![vec![op]]).try_into().unwrap();
            assert_eq!((done.failed, &done.outcomes[..]), (None, &[KernelOutcome::Ended(2)][..]));
            assert_eq!([&stale, &of_pod].map(heard), [ErrorKind::ConnectionAborted; 2]);
            let others = [&retained, &not_noted, &of_pod_not_noted];
            assert_eq!(others.map(heard), [ErrorKind::WouldBlock; 3]);
            assert_eq!(notes(&datapath), 1, "that of the backend which is there");
            assert_eq!(
                stale_sockets::end(&datapath.maps.services, &[].into(), &[Protocol::Udp]),
                Ok(0)
            );
            forget_all(&datapath);
        }
    });
}

#[test]
fn a_backend_of_another_protocol_keeps_no_socket() {
    Sandbox::run(|sandbox| {
        up();
        let datapath = sandbox.open();
        let maps = &datapath.maps.services;
        let at = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let backends = [(1, 4000, Transport::TCP), (2, 4001, Transport::ANY)];
        let row = |(id, port, transport)| {
            let at = L4Address { address: at(port).ip(), port, transport };
            let row = BackendRow { at, state: BackendState::Active, zone: 0 };
            ((ServiceId(0), BackendId(id)), row)
        };
        maps.put(ServiceRows::Members(backends.map(row).into())).unwrap();
        let (stale, of_any) = (connected(at(4000)), connected(at(4001)));
        note(&datapath, &stale);
        note(&datapath, &of_any);
        assert_eq!(stale_sockets::end(maps, &[].into(), &[Protocol::Udp]), Ok(1));
        assert_eq!(heard(&stale), ErrorKind::ConnectionAborted, "only TCP is served there");
        assert_eq!(heard(&of_any), ErrorKind::WouldBlock);
    });
}

#[test]
fn a_backend_of_another_service_keeps_no_socket_and_one_that_rests_keeps_streams() {
    Sandbox::run(|sandbox| {
        up();
        let datapath = sandbox.open();
        let maps = &datapath.maps.services;
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let at = listener.local_addr().unwrap();
        let row = |transport, state| {
            let at = L4Address { address: at.ip(), port: at.port(), transport };
            BackendRow { at, state, zone: 0 }
        };
        // The services of all notes is 0.
        let member = |service, id, row| ((ServiceId(service), BackendId(id)), row);
        let put = |rows: Vec<_>| maps.put(ServiceRows::Members(rows)).unwrap();
        let both = [Protocol::Udp, Protocol::Tcp];
        let end = || stale_sockets::end(maps, &[].into(), &both);
        let (datagrams, stream) = (connected(at), TcpStream::connect(at).unwrap());
        let noted = || {
            note(&datapath, &datagrams);
            note_of(&datapath, socket_cookie(&stream).unwrap(), at);
        };
        noted();
        put(vec![
            member(0, 1, row(Transport::UDP, BackendState::Terminating)),
            member(0, 2, row(Transport::TCP, BackendState::Terminating)),
        ]);
        assert_eq!(end(), Ok(0), "it keeps what it has");
        put(vec![
            member(0, 1, row(Transport::UDP, BackendState::Maintenance)),
            member(0, 2, row(Transport::TCP, BackendState::Maintenance)),
            member(7, 1, row(Transport::UDP, BackendState::Active)),
            member(7, 2, row(Transport::TCP, BackendState::Active)),
        ]);
        assert_eq!(end(), Ok(1), "datagrams find somebody who is ready");
        assert_eq!(heard(&datagrams), ErrorKind::ConnectionAborted);
        let gone = [1, 2].map(|id| ((ServiceId(0), BackendId(id)), true));
        maps.delete(ServiceKeys::Members(gone.into())).unwrap();
        assert_eq!(end(), Ok(1), "only another service lists it");
    });
}

#[test]
fn tcp_sockets_end_where_that_is_asked_for() {
    Sandbox::run(|sandbox| {
        up();
        let datapath = DatapathConfig { end_tcp: true, ..sandbox.config() };
        let datapath = Datapath::open(&datapath).unwrap();
        let maps = &datapath.maps.services;
        let listeners = [(); 2].map(|()| TcpListener::bind(("127.0.0.1", 0)).unwrap());
        let [here, gone] = listeners.each_ref().map(|it| it.local_addr().unwrap());
        let row = |transport, at: SocketAddr| {
            let at = L4Address { address: at.ip(), port: at.port(), transport };
            BackendRow { at, state: BackendState::Active, zone: 0 }
        };
        let rows = [(1, row(Transport::TCP, here)), (2, row(Transport::UDP, gone))];
        let rows = rows.map(|(id, row)| ((ServiceId(0), BackendId(id)), row));
        maps.put(ServiceRows::Members(rows.into())).unwrap();
        let [retained, stale, not_noted] =
            [here, gone, gone].map(|at| TcpStream::connect(at).unwrap());
        for socket in [&retained, &stale, &not_noted] {
            socket.set_nonblocking(true).unwrap();
        }
        for socket in [&retained, &stale] {
            note_of(&datapath, socket_cookie(socket).unwrap(), socket.peer_addr().unwrap());
        }
        assert_eq!(stale_sockets::end(maps, &[].into(), &[Protocol::Udp]), Ok(0), "left alone");
        assert_eq!(stale_sockets::end(maps, &[].into(), datapath.ended_protocols()), Ok(1));
        let said = |mut socket: &TcpStream| socket.read(&mut [0]).unwrap_err().kind();
        assert_eq!(said(&stale), ErrorKind::ConnectionAborted);
        assert_eq!([&retained, &not_noted].map(said), [ErrorKind::WouldBlock; 2]);
        assert_eq!(sandbox.open().ended_protocols(), [Protocol::Udp], "the default");
    });
}

/// Nothing is noted any more.
fn forget_all(datapath: &Datapath) {
    let maps = &datapath.maps.services;
    let (mut four, mut six) = (Vec::new(), Vec::new());
    maps.sockets4.for_each(|key, _| four.push(key)).unwrap();
    maps.sockets6.for_each(|key, _| six.push(key)).unwrap();
    maps.sockets4.delete_all(&four).unwrap();
    maps.sockets6.delete_all(&six).unwrap();
}
