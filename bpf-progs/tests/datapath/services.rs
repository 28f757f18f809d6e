//! What an endpoint sends to a service reaches a backend, and what comes back comes from the service.

use crate::common::*;
use std::net::{IpAddr, SocketAddr};
use volvox_bpf_progs::layouts::*;

fn allow(key: PolicyKey) -> (PolicyKey, PolicyRow) {
    (key, PolicyRow::allow(&key, 0))
}

/// A client `a` and a service with the one backend `b`, port 8080, in both families.
struct World {
    node: Node,
    a: Endpoint,
    b: Endpoint,
}

impl World {
    /// `a` may send to the backend's port only, `b` hears only that.
    fn new() -> Self {
        let mut node = Node::new();
        let (a, b) = (node.endpoint(1), node.endpoint(2));
        let to = |direction, peer: &Endpoint| {
            [TCP, UDP, SCTP].map(|protocol| {
                allow(PolicyKey::ports(direction, peer.identity, protocol, 8080, 16))
            })
        };
        node.rules(&a, &to(Direction::Egress, &b));
        node.rules(&b, &to(Direction::Ingress, &a));
        for (id, at) in [(1, b.v4()), (2, b.v6())] {
            node.backend(id, (at, 8080).into(), 0, BackendState::Active);
            for protocol in [TCP, UDP, SCTP] {
                node.service(at_service(at), protocol, random_service(SERVICE), &[id]);
            }
        }
        Self { node, a, b }
    }

    /// Client, service and backend in each family.
    fn families(&self) -> [(IpAddr, IpAddr, IpAddr); 2] {
        [(self.a.v4(), self.b.v4()), (self.a.v6(), self.b.v6())]
            .map(|(client, backend)| (client, service_address(client), backend))
    }

    /// Sends from `a`; whatever arrives at `b`.
    fn forth(&mut self, frame: &[u8]) -> Vec<u8> {
        let a = self.a;
        let got = self.node.send(&a, frame);
        assert_eq!(got.action, REDIRECT, "{:?}", self.node.drops());
        got.frame
    }

    fn back(&mut self, frame: &[u8]) -> Vec<u8> {
        let b = self.b;
        let got = self.node.send(&b, frame);
        assert_eq!(got.action, REDIRECT, "{:?}", self.node.drops());
        got.frame
    }
}

fn at_service(like: IpAddr) -> SocketAddr {
    (service_address(like), 80).into()
}

#[test]
fn a_packet_reaches_the_backend_as_if_it_had_been_sent_to_it() {
    let mut world = World::new();
    for (client, service, backend) in world.families() {
        for flags in [SYN, ACK, ACK | FIN] {
            let sent = sealed(tcp(client, service, 1000, 80, flags));
            let direct = sealed(tcp(client, backend, 1000, 8080, flags));
            let got = world.forth(&sent);
            assert!(is_sealed(&got));
            assert_eq!(got, delivered(direct, &world.b));
        }
        let got = world.forth(&sealed(udp(client, service, 1000, 80)));
        assert_eq!(got, delivered(sealed(udp(client, backend, 1000, 8080)), &world.b));
    }
}

#[test]
fn a_reply_comes_from_the_service() {
    let mut world = World::new();
    for (client, service, backend) in world.families() {
        world.forth(&sealed(tcp(client, service, 1000, 80, SYN)));
        let got = world.back(&sealed(tcp(backend, client, 8080, 1000, SYN | ACK)));
        let expected = sealed(tcp(service, client, 80, 1000, SYN | ACK));
        assert_eq!(got, delivered(expected, &world.a));
        world.forth(&sealed(udp(client, service, 1000, 80)));
        let got = world.back(&sealed(udp(backend, client, 8080, 1000)));
        assert_eq!(got, delivered(sealed(udp(service, client, 80, 1000)), &world.a));
    }
}

#[test]
fn a_reply_from_elsewhere_comes_from_the_service() {
    let mut world = World::new();
    for (far, id) in [("192.0.2.7", 3), ("2001:db8::7", 4)] {
        let far: IpAddr = far.parse().unwrap();
        let (a, service) = (world.a, service_address(far));
        let client = a.ip(far);
        world.node.backend(id, (far, 8080).into(), 0, BackendState::Active);
        let key = LbKey::new(at_service(far), TCP, LbScope::External);
        world.node.slots(key, random_service(SERVICE), &[id], &[]);
        world.node.rules(&a, &[allow(PolicyKey::any(Direction::Egress, 0))]);
        let got = world.node.send(&a, &sealed(tcp(client, service, 1000, 80, SYN)));
        let expected = sealed(tcp(client, far, 1000, 8080, SYN));
        assert_eq!((got.action, got.frame, got.mark), (OK, expected, a.identity << 16 | 0x0f00));
        let reply = sealed(tcp(far, client, 8080, 1000, SYN | ACK));
        let got = world.node.deliver(&a, 0, &reply);
        let expected = sealed(tcp(service, client, 80, 1000, SYN | ACK));
        assert_eq!((got.action, got.frame), (OK, expected));
    }
}

#[test]
fn a_checksum_of_zero_stays_away() {
    let mut world = World::new();
    let (client, service, backend) = world.families()[0];
    let got = world.forth(&udp(client, service, 1000, 80));
    assert_eq!(got, delivered(udp(client, backend, 1000, 8080), &world.b));
    // One that comes out as zero is written as its other zero.
    for port in 0..u16::MAX {
        let direct = sealed(udp(client, backend, port, 8080));
        if direct[40..42] == [0, 0] {
            let got = world.forth(&sealed(udp(client, service, port, 80)));
            assert_eq!(got[40..42], [0xff, 0xff], "port {port}");
            return;
        }
    }
    panic!("some port's checksum is zero");
}

#[test]
fn a_connection_is_tracked_for_the_service_and_for_the_backend() {
    let mut world = World::new();
    for ((client, service, backend), id) in world.families().into_iter().zip([1, 2]) {
        assert_lifetime(60, || {
            world.forth(&sealed(tcp(client, service, 1000, 80, SYN)));
            let asked = Connection { opener: (client, 1000), other: (service, 80), protocol: TCP };
            let row = world.node.tracked(asked, TupleFlags::SERVICE).unwrap();
            assert_eq!((backend_of(&row), row.rev_nat_index.get()), (id, SERVICE));
            row.lifetime
        });
        let got = Connection { opener: (client, 1000), other: (backend, 8080), protocol: TCP };
        let [out, into] = [TupleFlags::OUT, TupleFlags::IN]
            .map(|tuple| world.node.tracked(got, tuple).unwrap().rev_nat_index.get());
        assert_eq!((out, into), (SERVICE, 0), "one end translates");
        assert_lifetime(8000, || {
            world.forth(&sealed(tcp(client, service, 1000, 80, ACK)));
            let asked = Connection { opener: (client, 1000), other: (service, 80), protocol: TCP };
            world.node.tracked(asked, TupleFlags::SERVICE).unwrap().lifetime
        });
    }
    assert_eq!(world.node.tracked_count(), 6);
}

#[test]
fn policy_sees_the_backend() {
    let mut world = World::new();
    let (a, b) = (world.a, world.b);
    for (client, service, _) in world.families() {
        let sent = sealed(udp(client, service, 1000, 80));
        world.node.rules(&a, &[allow(PolicyKey::ports(Direction::Egress, 0, UDP, 80, 16))]);
        assert_eq!(world.node.drop_of(|node| node.send(&a, &sent)), Some(133), "not the service");
        world
            .node
            .rules(&a, &[allow(PolicyKey::ports(Direction::Egress, b.identity, UDP, 8080, 16))]);
        assert_eq!(world.node.drop_of(|node| node.send(&a, &sent)), None);
    }
}

#[test]
fn an_address_of_a_service_has_no_other_ports() {
    let mut world = World::new();
    let a = world.a;
    world.node.rules(&a, &[allow(PolicyKey::any(Direction::Egress, 0))]);
    for (client, service, _) in world.families() {
        let before = world.node.tracked_count();
        for sent in [tcp(client, service, 1000, 81, SYN), udp(client, service, 1000, 81)] {
            assert_eq!(world.node.drop_of(|node| node.send(&a, &sent)), Some(158));
        }
        assert_eq!(world.node.tracked_count(), before);
        // An address that is not a service's goes its way.
        world.node.no_lb_row(LbKey::wildcard(service));
        let sent = udp(client, service, 1000, 81);
        assert_eq!(world.node.send(&a, &sent).action, OK);
        // Whoever has been answered before is not cut off.
        world.node.lb_row(LbKey::wildcard(service), LbRow::default());
        assert_eq!(world.node.send(&a, &sent).action, OK);
    }
}

#[test]
fn a_service_without_backends_drops() {
    let mut world = World::new();
    let a = world.a;
    for (client, service, _) in world.families() {
        let key = LbKey::new(at_service(client), UDP, LbScope::External);
        world.node.slots(key, random_service(SERVICE), &[], &[]);
        let sent = udp(client, service, 1000, 80);
        assert_eq!(world.node.drop_of(|node| node.send(&a, &sent)), Some(158));
    }
}

#[test]
fn clients_inside_see_the_inner_scope() {
    let mut world = World::new();
    for ((client, service, backend), id) in world.families().into_iter().zip([1, 2]) {
        let outer = LbKey::new(at_service(client), UDP, LbScope::External);
        let inner = LbKey::new(at_service(client), UDP, LbScope::Internal);
        let row = LbRow { flags2: LbFlags2::TWO_SCOPES, ..random_service(SERVICE) };
        world.node.slots(outer, row, &[77], &[]);
        world.node.slots(inner, row, &[id], &[]);
        let got = world.forth(&sealed(udp(client, service, 1000, 80)));
        assert_eq!(got, delivered(sealed(udp(client, backend, 1000, 8080)), &world.b));
    }
}

#[test]
fn sctp_passes_where_the_port_stays() {
    let mut world = World::new();
    let a = world.a;
    for ((client, service, backend), id) in world.families().into_iter().zip([1, 2]) {
        let moved = ip(client, service, SCTP, &sctp_header(1000, 80, SCTP_INIT));
        assert_eq!(world.node.drop_of(|node| node.send(&a, &moved)), Some(154));
        let same: SocketAddr = (service, 8080).into();
        world.node.service(same, SCTP, random_service(SERVICE), &[id]);
        let got = world.forth(&ip(client, service, SCTP, &sctp_header(1000, 8080, SCTP_INIT)));
        let direct = ip(client, backend, SCTP, &sctp_header(1000, 8080, SCTP_INIT));
        assert_eq!(got, delivered(direct, &world.b));
    }
}

#[test]
fn a_plain_connection_to_the_backend_and_one_by_the_service_do_not_mix() {
    let mut world = World::new();
    for (client, service, backend) in world.families() {
        let reply = sealed(udp(backend, client, 8080, 1000));
        for _ in 0..2 {
            world.forth(&sealed(udp(client, backend, 1000, 8080)));
            assert_eq!(world.back(&reply), delivered(reply.clone(), &world.a));
            world.forth(&sealed(udp(client, service, 1000, 80)));
            let from_service = sealed(udp(service, client, 80, 1000));
            assert_eq!(world.back(&reply), delivered(from_service, &world.a));
        }
    }
}

#[test]
fn a_connection_that_goes_on_is_refused_as_soon_as_its_policy_says_so() {
    let mut world = World::new();
    let (a, b) = (world.a, world.b);
    let allowed = [allow(PolicyKey::ports(Direction::Egress, b.identity, UDP, 8080, 16))];
    for (client, service, _) in world.families() {
        let sent = sealed(udp(client, service, 1000, 80));
        for _ in 0..5 {
            world.node.rules(&a, &allowed);
            for _ in 0..5 {
                world.forth(&sent);
            }
            world.node.rules(&a, &[]);
            assert_eq!(world.node.drop_of(|node| node.send(&a, &sent)), Some(133));
        }
        world.node.rules(&a, &allowed);
    }
}

#[test]
fn a_service_that_goes_is_noticed_within_a_second() {
    let mut world = World::new();
    let a = world.a;
    for (client, service, _) in world.families() {
        let sent = sealed(udp(client, service, 1000, 80));
        for _ in 0..5 {
            world.forth(&sent);
        }
        world.node.no_lb_row(LbKey::new(at_service(client), UDP, LbScope::External));
        // The clock of the programs has seconds.
        std::thread::sleep(std::time::Duration::from_millis(1300));
        assert_eq!(world.node.drop_of(|node| node.send(&a, &sent)), Some(158));
    }
}

#[test]
fn a_connection_whose_entry_is_gone_is_answered_again_within_a_second() {
    let mut world = World::new();
    for (client, service, backend) in world.families() {
        let sent = sealed(udp(client, service, 1000, 80));
        for _ in 0..5 {
            world.forth(&sent);
        }
        let opened = Connection { opener: (client, 1000), other: (backend, 8080), protocol: UDP };
        world.node.untrack(opened, TupleFlags::OUT);
        std::thread::sleep(std::time::Duration::from_millis(1300));
        world.forth(&sent);
        let got = world.back(&sealed(udp(backend, client, 8080, 1000)));
        assert_eq!(got, delivered(sealed(udp(service, client, 80, 1000)), &world.a));
    }
}
