//! An endpoint that is its own backend: it sees a stand-in for its own address.

use crate::common::*;
use std::net::IpAddr;
use volvox_bpf_progs::layouts::*;

/// An endpoint without any rule, the only backend of a service.
struct World {
    node: Node,
    a: Endpoint,
}

impl World {
    fn new() -> Self {
        let mut node = Node::new();
        let a = node.endpoint(1);
        for (id, at) in [(1, a.v4()), (2, a.v6())] {
            node.backend(id, (at, 8080).into(), 0, BackendState::Active);
            for protocol in [TCP, UDP] {
                let frontend = (service_address(at), 80).into();
                node.service(frontend, protocol, random_service(SERVICE), &[id]);
            }
        }
        Self { node, a }
    }

    /// Its own address, the service's, and the one that stands in.
    fn families(&self) -> [(IpAddr, IpAddr, IpAddr); 2] {
        [(self.a.v4(), "169.254.42.1"), (self.a.v6(), "fe80::1")]
            .map(|(own, stand_in)| (own, service_address(own), stand_in.parse().unwrap()))
    }

    /// What becomes of a frame that it sends, which comes back to it.
    fn send(&mut self, frame: &[u8]) -> Vec<u8> {
        let a = self.a;
        let got = self.node.send(&a, frame);
        assert_eq!(got.action, REDIRECT, "{:?}", self.node.drops());
        got.frame
    }
}

#[test]
fn it_speaks_with_itself_whatever_its_policy_says() {
    let mut world = World::new();
    for (own, service, stand_in) in world.families() {
        for (there, back) in [(SYN, SYN | ACK), (ACK, ACK), (FIN | ACK, FIN | ACK)] {
            let got = world.send(&sealed(tcp(own, service, 1000, 80, there)));
            let expected = sealed(tcp(stand_in, own, 1000, 8080, there));
            assert_eq!(got, delivered(expected, &world.a));
            let got = world.send(&sealed(tcp(own, stand_in, 8080, 1000, back)));
            let expected = sealed(tcp(service, own, 80, 1000, back));
            assert_eq!(got, delivered(expected, &world.a));
        }
        let got = world.send(&sealed(udp(own, service, 1000, 80)));
        assert_eq!(got, delivered(sealed(udp(stand_in, own, 1000, 8080)), &world.a));
        let got = world.send(&sealed(udp(own, stand_in, 8080, 1000)));
        assert_eq!(got, delivered(sealed(udp(service, own, 80, 1000)), &world.a));
    }
    assert_eq!(world.node.drops(), [].into());
}

#[test]
fn it_complains_to_itself() {
    let mut world = World::new();
    for (own, service, stand_in) in world.families() {
        let heard = world.send(&sealed(udp(own, service, 1000, 80)));
        let got = world.send(&sealed(unreachable(own, stand_in, &heard)));
        assert!(is_sealed(&got));
        let (inner, addresses) = if own.is_ipv4() { (42, 26..34) } else { (62, 22..54) };
        let ends = |from: IpAddr, to: IpAddr| match (from, to) {
            (IpAddr::V4(from), IpAddr::V4(to)) => [from.octets(), to.octets()].concat(),
            (IpAddr::V6(from), IpAddr::V6(to)) => [from.octets(), to.octets()].concat(),
            _ => panic!("{from} and {to} are of different families"),
        };
        assert_eq!(got[addresses.clone()], ends(service, own));
        let shift = inner - 14;
        assert_eq!(got[addresses.start + shift..addresses.end + shift], ends(own, service));
        assert_eq!(got[addresses.end + shift..][..4], [3, 232, 0, 80]);
    }
}

#[test]
fn what_is_sent_to_the_stand_in_without_a_connection_has_no_privilege() {
    let mut world = World::new();
    let a = world.a;
    for (own, _, stand_in) in world.families() {
        let stray = udp(own, stand_in, 8080, 1000);
        assert_eq!(world.node.drop_of(|node| node.send(&a, &stray)), Some(138));
    }
}

#[test]
fn its_entry_says_what_it_is() {
    let mut world = World::new();
    for (own, service, stand_in) in world.families() {
        world.send(&sealed(tcp(own, service, 1000, 80, SYN)));
        let heard = Connection { opener: (stand_in, 1000), other: (own, 8080), protocol: TCP };
        let row = world.node.tracked(heard, TupleFlags::IN).unwrap();
        assert_eq!(row.rev_nat_index.get(), SERVICE);
        assert_eq!(row.flags & CtFlags::LOOPBACK, CtFlags::LOOPBACK);
        let asked = Connection { opener: (own, 1000), other: (service, 80), protocol: TCP };
        assert!(world.node.tracked(asked, TupleFlags::SERVICE).is_some());
    }
}
