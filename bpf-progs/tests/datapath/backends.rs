//! Which backend a connection to a service gets, and how long it keeps it.

use crate::common::*;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use volvox_bpf_progs::layouts::*;

const CLIENTS: u16 = 300;

/// A client, a service in one family, and backends elsewhere whose ids are in their addresses.
struct World {
    node: Node,
    a: Endpoint,
    v6: bool,
}

impl World {
    fn both() -> [Self; 2] {
        [false, true].map(|v6| {
            let mut node = Node::new();
            let a = node.endpoint(1);
            let key = PolicyKey::any(Direction::Egress, 0);
            node.rules(&a, &[(key, PolicyRow::allow(&key, 0))]);
            let mut world = Self { node, a, v6 };
            for id in 1..=6 {
                world.state(id, BackendState::Active);
            }
            for protocol in [TCP, UDP] {
                world.node.service(world.frontend(), protocol, random_service(SERVICE), &[]);
            }
            world
        })
    }

    fn client(&self) -> IpAddr {
        if self.v6 { self.a.v6() } else { self.a.v4() }
    }

    fn frontend(&self) -> SocketAddr {
        (service_address(self.client()), 80).into()
    }

    fn key(&self, protocol: u8) -> LbKey {
        LbKey::new(self.frontend(), protocol, LbScope::External)
    }

    fn state(&mut self, id: u32, state: BackendState) {
        let last = id as u8;
        let address: IpAddr = match self.v6 {
            false => Ipv4Addr::new(192, 0, 2, last).into(),
            true => Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, last.into()).into(),
        };
        self.node.backend(id, (address, 8080).into(), 0, state);
    }

    /// Has the row of a backend say that it is another one's.
    fn mistake(&mut self, id: u32, other: u32) {
        let (key, own) = (MemberKey::new(id, SERVICE), MemberKey::new(other, SERVICE));
        if self.v6 {
            let row: Member6Row = self.node.read("volvox_lb6_members", key).unwrap();
            self.node.put("volvox_lb6_members", key, Member6Row { key: own, ..row });
        } else {
            let row: Member4Row = self.node.read("volvox_lb4_members", key).unwrap();
            self.node.put("volvox_lb4_members", key, Member4Row { key: own, ..row });
        }
    }

    fn slots(&mut self, backends: &[u32], quarantined: &[u32]) {
        for protocol in [TCP, UDP] {
            let key = self.key(protocol);
            self.node.slots(key, random_service(SERVICE), backends, quarantined);
        }
    }

    /// The backend that a frame reaches.
    fn reached(&mut self, frame: &[u8]) -> u32 {
        let a = self.a;
        let got = self.node.send(&a, frame);
        assert_eq!(got.action, OK, "{:?}", self.node.drops());
        got.frame[if self.v6 { 53 } else { 33 }].into()
    }

    fn udp(&mut self, port: u16) -> u32 {
        let frame = udp(self.client(), self.frontend().ip(), port, 80);
        self.reached(&frame)
    }

    fn tcp(&mut self, port: u16, flags: u8) -> u32 {
        let frame = tcp(self.client(), self.frontend().ip(), port, 80, flags);
        self.reached(&frame)
    }

    /// The backends that new connections reach, from `first` on by their ports.
    fn all(&mut self, first: u16) -> BTreeSet<u32> {
        (first..first + CLIENTS).map(|port| self.udp(port)).collect()
    }
}

#[test]
fn new_connections_spread_over_all_backends() {
    for mut world in World::both() {
        world.slots(&[1, 2, 3, 4, 5, 6], &[]);
        assert_eq!(world.all(1), (1..=6).collect());
    }
}

#[test]
fn a_connection_keeps_its_backend() {
    for mut world in World::both() {
        world.slots(&[1, 2, 3, 4, 5, 6], &[]);
        for port in 1..20 {
            let (datagram, stream) = (world.udp(port), world.tcp(port, SYN));
            for _ in 0..10 {
                assert_eq!(world.udp(port), datagram);
                assert_eq!(world.tcp(port, SYN), stream, "a repeated attempt");
                assert_eq!(world.tcp(port, ACK), stream);
            }
        }
    }
}

#[test]
fn a_former_connections_ports_get_a_new_choice() {
    for mut world in World::both() {
        for backends in [[1, 2, 3], [4, 5, 6]] {
            world.slots(&backends, &[]);
            assert!(backends.contains(&world.tcp(7, SYN)));
            world.tcp(7, FIN | ACK);
        }
    }
}

#[test]
fn a_connection_whose_entry_is_gone_keeps_its_backend() {
    for mut world in World::both() {
        world.slots(&[1, 2, 3, 4, 5, 6], &[]);
        for port in 1..20 {
            let (datagram, stream) = (world.udp(port), world.tcp(port, SYN));
            for (protocol, reached) in [(UDP, datagram), (TCP, stream)] {
                let opener = (world.client(), port);
                let asked = (world.frontend().ip(), 80);
                let connection = Connection { opener, other: asked, protocol };
                world.node.untrack(connection, TupleFlags::SERVICE);
                let goes_on = if protocol == UDP { world.udp(port) } else { world.tcp(port, ACK) };
                assert_eq!(goes_on, reached);
            }
        }
    }
}

#[test]
fn quarantined_backends_serve_where_there_is_no_other() {
    for mut world in World::both() {
        for id in [5, 6] {
            world.state(id, BackendState::Quarantined);
        }
        world.slots(&[1, 2], &[5, 6]);
        assert_eq!(world.all(1), [1, 2].into());
        world.slots(&[], &[5, 6]);
        assert_eq!(world.all(1000), [5, 6].into());
        // Whoever has one keeps it when others are back.
        let retained = world.udp(1000);
        world.slots(&[1, 2], &[5, 6]);
        assert_eq!(world.udp(1000), retained);
        assert!([5, 6].contains(&retained));
    }
}

#[test]
fn a_terminating_backend_keeps_what_it_has() {
    for mut world in World::both() {
        world.slots(&[1], &[]);
        assert_eq!((world.udp(7), world.tcp(7, SYN), world.tcp(7, ACK)), (1, 1, 1));
        assert_eq!(world.tcp(8, SYN), 1);
        world.state(1, BackendState::Terminating);
        world.slots(&[2], &[]);
        assert_eq!((world.udp(7), world.tcp(7, ACK)), (1, 1));
        assert_eq!((world.udp(9), world.tcp(9, SYN)), (2, 2), "new ones go elsewhere");
        assert_eq!(world.tcp(8, SYN), 2, "so does an attempt that was not answered");
        assert_eq!(world.tcp(8, ACK), 2);
    }
}

#[test]
fn a_service_of_terminating_backends_only_still_serves() {
    for mut world in World::both() {
        world.state(1, BackendState::Terminating);
        world.slots(&[1], &[]);
        assert_eq!(world.udp(7), 1);
    }
}

#[test]
fn a_connection_whose_backend_is_gone_gets_another() {
    for mut world in World::both() {
        world.slots(&[1], &[]);
        assert_eq!((world.udp(7), world.tcp(7, SYN), world.tcp(7, ACK)), (1, 1, 1));
        world.slots(&[2], &[]);
        assert_eq!((world.udp(7), world.tcp(7, ACK)), (1, 1), "it is listed still");
        let like = world.client();
        world.node.no_backend(1, like);
        assert_eq!((world.udp(7), world.tcp(7, ACK)), (2, 2));
        let key = world.key(TCP);
        world.node.slots(key, random_service(SERVICE), &[3], &[]);
        assert_eq!(world.tcp(7, ACK), 2, "it stays with that one");
    }
}

#[test]
fn a_service_that_is_another_one_chooses_anew() {
    for mut world in World::both() {
        world.slots(&[1], &[]);
        assert_eq!(world.tcp(7, SYN), 1);
        let key = world.key(TCP);
        world.node.slots(key, random_service(SERVICE + 1), &[2], &[]);
        assert_eq!(world.tcp(7, SYN), 2);
    }
}

#[test]
fn slots_and_backends_that_go_are_passed_over() {
    for mut world in World::both() {
        world.slots(&[1, 2, 3, 4], &[]);
        let (key, like) = (world.key(UDP), world.client());
        world.node.no_lb_row(key.slot(2));
        world.node.no_backend(3, like);
        assert_eq!(world.all(1), [1, 4].into());
        // A slot whose memory is another service's by now.
        let others = LbRow { backend: 5, rev_nat: Be16::new(SERVICE + 1), ..LbRow::default() };
        world.node.lb_row(key.slot(1), others);
        assert_eq!(world.all(1000), [4].into());
        // A backend whose row's memory is another backend's by now.
        world.slots(&[1, 2, 4], &[]);
        world.mistake(1, 2);
        assert_eq!(world.all(2000), [2, 4].into());
    }
}

#[test]
fn a_connection_stays_only_with_a_backend_of_its_own_service() {
    for mut world in World::both() {
        world.slots(&[1], &[]);
        for port in [7, 8] {
            assert_eq!((world.udp(port), world.tcp(port, SYN), world.tcp(port, ACK)), (1, 1, 1));
        }
        // Another service has it, and uses it.
        let like = world.client();
        world.node.member(SERVICE + 1, 1, BackendState::Active, like);
        world.slots(&[2], &[]);
        assert_eq!((world.udp(7), world.tcp(7, ACK)), (1, 1), "it is listed still");
        world.node.no_member(SERVICE, 1, like);
        for port in [7, 8] {
            assert_eq!((world.udp(port), world.tcp(port, ACK)), (2, 2));
        }
    }
}

#[test]
fn one_that_is_not_ready_keeps_streams_and_no_datagrams() {
    for mut world in World::both() {
        world.slots(&[1], &[]);
        for port in [7, 8] {
            assert_eq!((world.udp(port), world.tcp(port, SYN), world.tcp(port, ACK)), (1, 1, 1));
        }
        let like = world.client();
        world.node.member(SERVICE + 1, 1, BackendState::Active, like);
        world.node.member(SERVICE, 1, BackendState::Maintenance, like);
        world.slots(&[2], &[]);
        assert_eq!((world.udp(7), world.tcp(7, ACK)), (2, 1));
        assert_eq!(world.tcp(8, SYN), 2, "a new attempt from the same port");
        assert_eq!((world.udp(9), world.tcp(9, SYN)), (2, 2));
    }
}

#[test]
fn the_short_way_asks_the_service_too() {
    for mut world in World::both() {
        world.slots(&[1], &[]);
        let like = world.client();
        for _ in 0..5 {
            assert_eq!((world.udp(7), world.tcp(7, SYN), world.tcp(7, ACK)), (1, 1, 1));
        }
        world.slots(&[2], &[]);
        world.node.member(SERVICE, 1, BackendState::Maintenance, like);
        assert_eq!((world.udp(7), world.tcp(7, ACK)), (2, 1), "within the same second");
        world.node.no_member(SERVICE, 1, like);
        assert_eq!((world.udp(7), world.tcp(7, ACK)), (2, 2));
    }
}

#[test]
fn the_same_backend_of_a_service_that_came_anew_keeps_its_connections() {
    for mut world in World::both() {
        world.slots(&[1, 2], &[]);
        assert_eq!(world.tcp(7, SYN), world.tcp(7, ACK));
        let had = world.tcp(7, ACK);
        let key = world.key(TCP);
        world.node.slots(key, random_service(SERVICE + 1), &[1, 2], &[]);
        for _ in 0..20 {
            assert_eq!(world.tcp(7, ACK), had);
        }
    }
}
