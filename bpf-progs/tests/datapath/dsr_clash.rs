//! Direct server return: a client uses one port towards several nodes at once, and all have one backend.

use crate::common::outside::{Ends, World, backend_id, open_service, serving};
use crate::common::*;
use std::net::{IpAddr, SocketAddr};
use volvox_bpf_progs::layouts::*;

const PORT: u16 = 30_080;

/// A node that serves an endpoint, as any node may, and two other nodes.
fn world() -> World {
    let mut world = serving(dsr(), PORT);
    for (_, own, _) in world.families() {
        let id = backend_id(own);
        let balanced = LbRow { flags: LbFlags::LOAD_BALANCER, ..random_service(SERVICE + 3) };
        for protocol in [TCP, UDP] {
            world.node.service(balancer(own), protocol, balanced, &[id]);
        }
        for number in [1, 2] {
            world.node.ipcache(other(own, number), if own.is_ipv4() { 32 } else { 128 }, 6);
        }
    }
    world
}

fn other(like: IpAddr, number: u8) -> IpAddr {
    match like {
        IpAddr::V4(_) => [192, 0, 2, 200 + number].into(),
        IpAddr::V6(_) => [0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x200 + u16::from(number)].into(),
    }
}

/// What any node may serve.
fn balancer(like: IpAddr) -> SocketAddr {
    let text = if like.is_ipv4() { "203.0.113.80" } else { "2001:db8:80::80" };
    (text.parse::<IpAddr>().unwrap(), 80).into()
}

/// What a client's connection to the endpoint goes by.
#[derive(Clone, Copy, Debug, PartialEq)]
enum By {
    /// Another node, which tells what he asked.
    Other(u8),
    /// This node's own port.
    Own,
    /// An address of no node, which leads to this one.
    Balancer,
    /// The same, which leads to another node.
    BalancerElsewhere,
    /// The endpoint's own address.
    Itself,
}

/// A client's way to the endpoint, of one family.
#[derive(Clone, Copy, Debug)]
struct Client {
    near: IpAddr,
    own: IpAddr,
    far: IpAddr,
    protocol: u8,
}

impl Client {
    fn frame(&self, from: (IpAddr, u16), to: (IpAddr, u16), flags: u8) -> Vec<u8> {
        sealed(match self.protocol {
            TCP => tcp(from.0, to.0, from.1, to.1, flags),
            _ => udp(from.0, to.0, from.1, to.1),
        })
    }

    fn at(&self, by: By) -> (IpAddr, u16) {
        match by {
            By::Other(number) => (other(self.own, number), PORT),
            By::Own => (self.own, PORT),
            By::Balancer | By::BalancerElsewhere => {
                (balancer(self.own).ip(), balancer(self.own).port())
            }
            By::Itself => (self.near, 8080),
        }
    }

    /// What comes from the wire of what he says.
    fn says(&self, by: By, flags: u8) -> Vec<u8> {
        let plain = |to| self.frame((self.far, 5000), to, flags);
        match by {
            By::Own | By::Balancer => plain(self.at(by)),
            By::Other(_) | By::BalancerElsewhere if self.protocol == UDP || flags & SYN != 0 => {
                reported(plain((self.near, 8080)), self.at(by).into())
            }
            _ => plain((self.near, 8080)),
        }
    }

    /// The port by which the endpoint hears it.
    fn heard(&self, world: &mut World, by: By, flags: u8) -> u16 {
        let said = self.says(by, flags);
        let got = world.got(&said);
        assert_eq!(got[..6], world.a.mac, "{by:?}: the endpoint hears it");
        let ends = inner_ends(&got);
        assert_eq!((ends.from.0, ends.to), (self.far, (self.near, 8080)));
        if !is_told(&said) {
            assert!(is_sealed(&got));
        }
        ends.from.1
    }

    /// Checks whom the client hears, and by which port, when the endpoint answers one of its ports.
    fn hears(&self, world: &mut World, port: u16, flags: u8, by: By) {
        let a = world.a;
        let got = world.node.send(&a, &self.frame((self.near, 8080), (self.far, port), flags));
        let ends = ends_of(&got.frame);
        assert_eq!((ends.from, ends.to), (self.at(by), (self.far, 5000)), "{self:?} by {by:?}");
        assert!(is_sealed(&got.frame));
    }

    fn connection(&self, port: u16) -> Connection {
        let protocol = self.protocol;
        Connection { opener: (self.far, port), other: (self.near, 8080), protocol }
    }

    /// Has this node serve its port by a service.
    fn serve(&self, world: &mut World, service: u16) {
        let id = backend_id(self.own);
        let at = (self.own, PORT).into();
        world.node.service(at, self.protocol, open_service(service), &[id]);
    }

    /// Has nothing be known of a service any more.
    fn forget(&self, world: &mut World, service: u16) {
        let key = Be16::new(service).to_bytes();
        match self.own.is_ipv4() {
            true => world.node.remove::<_, ReverseNat4Row>("cilium_lb4_reverse_nat", key),
            false => world.node.remove::<_, ReverseNat6Row>("cilium_lb6_reverse_nat", key),
        }
    }

    fn row(&self, world: &mut World, port: u16) -> CtRow {
        world.node.tracked(self.connection(port), TupleFlags::IN).unwrap()
    }
}

/// The ends of a frame with or without the option.
fn inner_ends(frame: &[u8]) -> Ends {
    let mut plain = frame.to_vec();
    if is_told(frame) {
        let option = if frame[14] == 0x47 { 34..42 } else { 54..78 };
        plain.drain(option);
    }
    ends_of(&plain)
}

fn clients(world: &World, protocols: &[u8]) -> Vec<Client> {
    let of = |(near, own, far)| move |protocol: &u8| Client { near, own, far, protocol: *protocol };
    world.families().into_iter().flat_map(|all| protocols.iter().map(of(all))).collect()
}

const OPENING: [u8; 3] = [SYN, SYN, ACK];

#[test]
fn what_asks_the_backends_node_meanwhile_has_a_port_of_its_own() {
    let mut world = world();
    for client in clients(&world, &[TCP, UDP]) {
        let first = By::Other(1);
        for flags in OPENING {
            assert_eq!(client.heard(&mut world, first, flags), 5000);
            client.hears(&mut world, 5000, flags | ACK, first);
        }
        let mut ports = Vec::new();
        for flags in OPENING {
            let port = client.heard(&mut world, By::Own, flags);
            client.hears(&mut world, port, flags | ACK, By::Own);
            client.hears(&mut world, 5000, ACK, first);
            assert_eq!(client.heard(&mut world, first, ACK), 5000);
            ports.push(port);
        }
        assert!(ports[0] != 5000 && ports.iter().all(|port| *port == ports[0]), "{ports:?}");
        let row = client.row(&mut world, ports[0]);
        assert_eq!(row.nat_port.get(), 5000);
        assert_eq!(row.flags & CtFlags::MOVED, CtFlags::MOVED);
    }
    assert_eq!(world.node.drops(), [].into());
    assert_eq!(world.node.translations(), []);
}

#[test]
fn what_asks_another_node_meanwhile_goes_back_to_it() {
    for first in [By::Other(1), By::Own, By::Itself] {
        let mut world = world();
        for client in clients(&world, &[TCP, UDP]) {
            client.heard(&mut world, first, SYN);
            client.hears(&mut world, 5000, SYN | ACK, first);
            let asked = SocketAddr::from(client.at(By::Other(2)));
            for _ in 0..2 {
                let said = client.says(By::Other(2), SYN);
                let got = world.node.receive(&world.up, &said);
                assert_eq!(got.action, REDIRECT, "{:?}", world.node.drops());
                let back = client.frame((client.far, 5000), client.at(By::Other(2)), SYN);
                assert_eq!(
                    got.frame,
                    forwarded(blanked(reported(back, asked))),
                    "{client:?} after {first:?}"
                );
                client.hears(&mut world, 5000, ACK, first);
                assert_eq!(client.heard(&mut world, first, ACK), 5000);
                client.hears(&mut world, 5000, ACK, first);
            }
        }
        assert_eq!(world.node.drops(), [].into());
    }
}

#[test]
fn what_asks_the_backend_itself_meanwhile_changes_nothing() {
    for first in [By::Other(1), By::Own] {
        let mut world = world();
        for client in clients(&world, &[TCP]) {
            client.heard(&mut world, first, SYN);
            client.heard(&mut world, first, ACK);
            for flags in [SYN, ACK, FIN | ACK] {
                assert_eq!(client.heard(&mut world, By::Itself, flags), 5000);
                client.hears(&mut world, 5000, ACK, first);
                assert_eq!(client.heard(&mut world, first, ACK), 5000);
                client.hears(&mut world, 5000, ACK, first);
            }
        }
    }
}

#[test]
fn what_asks_an_address_of_no_node_meanwhile_waits_or_is_not_of_tcp() {
    for first in [By::Other(1), By::Own] {
        let mut world = world();
        for client in clients(&world, &[TCP, UDP]) {
            let next = By::BalancerElsewhere;
            client.heard(&mut world, first, SYN);
            assert_eq!(client.heard(&mut world, next, SYN), 5000);
            let heard = if client.protocol == TCP { first } else { next };
            client.hears(&mut world, 5000, SYN | ACK, heard);
            assert_eq!(client.heard(&mut world, next, ACK), 5000);
            client.hears(&mut world, 5000, ACK, heard);
            world.node.change(client.connection(5000), TupleFlags::IN, |row| row.lifetime = 1);
            client.heard(&mut world, next, SYN);
            client.hears(&mut world, 5000, SYN | ACK, next);
        }
    }
}

#[test]
fn an_address_of_no_node_is_one_connection_by_whichever_node() {
    for ways in [[By::Balancer, By::BalancerElsewhere], [By::BalancerElsewhere, By::Balancer]] {
        let mut world = world();
        for client in clients(&world, &[TCP, UDP]) {
            client.heard(&mut world, ways[0], SYN);
            client.hears(&mut world, 5000, SYN | ACK, ways[0]);
            for by in [ways[1], ways[0], ways[1]] {
                for flags in [ACK, SYN, ACK] {
                    assert_eq!(client.heard(&mut world, by, flags), 5000, "{client:?} by {by:?}");
                    client.hears(&mut world, 5000, ACK, by);
                }
            }
        }
        assert_eq!(world.node.drops(), [].into());
    }
}

#[test]
fn ends_whose_connection_is_over_are_the_next_ones() {
    let ways = [By::Other(1), By::Own, By::Itself, By::Other(2)];
    let mut world = world();
    for client in clients(&world, &[TCP, UDP]) {
        for before in ways {
            for after in ways {
                client.heard(&mut world, before, SYN);
                client.hears(&mut world, 5000, SYN | ACK, before);
                client.heard(&mut world, before, ACK);
                world.node.change(client.connection(5000), TupleFlags::IN, |row| row.lifetime = 1);
                assert_eq!(client.heard(&mut world, after, SYN), 5000, "{before:?}, {after:?}");
                client.hears(&mut world, 5000, SYN | ACK, after);
                assert_eq!(client.heard(&mut world, after, ACK), 5000);
                client.hears(&mut world, 5000, ACK, after);
                world.node.change(client.connection(5000), TupleFlags::IN, |row| row.lifetime = 1);
            }
        }
    }
    assert_eq!(world.node.drops(), [].into());
}

#[test]
fn a_port_is_used_again_by_the_same_way_and_one_that_was_reset_by_any() {
    let mut world = world();
    for client in clients(&world, &[TCP]) {
        for by in [By::Other(1), By::Own] {
            for _ in 0..2 {
                for flags in [SYN, ACK, FIN | ACK] {
                    assert_eq!(client.heard(&mut world, by, flags), 5000, "{by:?}");
                    client.hears(&mut world, 5000, flags | ACK, by);
                }
            }
            if by != By::Own {
                let port = client.heard(&mut world, By::Own, SYN);
                assert_ne!(port, 5000, "it may still be remembered");
                client.heard(&mut world, By::Own, RST);
            }
            client.heard(&mut world, by, SYN);
            client.heard(&mut world, by, RST);
        }
        assert_eq!(client.heard(&mut world, By::Other(2), SYN), 5000);
        client.hears(&mut world, 5000, SYN | ACK, By::Other(2));
    }
}

#[test]
fn a_moved_connection_stays_where_it_is() {
    let mut world = world();
    for client in clients(&world, &[TCP, UDP]) {
        client.heard(&mut world, By::Other(1), SYN);
        let port = client.heard(&mut world, By::Own, SYN);
        assert_ne!(port, 5000);
        client.hears(&mut world, port, SYN | ACK, By::Own);
        // The service's entry may be evicted.
        let service = Connection { other: (client.own, PORT), ..client.connection(5000) };
        world.node.untrack(service, TupleFlags::SERVICE);
        assert_eq!(client.heard(&mut world, By::Own, ACK), port);
        // The other connection may end.
        world.node.untrack(client.connection(5000), TupleFlags::IN);
        assert_eq!(client.heard(&mut world, By::Own, ACK), port);
        client.hears(&mut world, port, ACK, By::Own);
        // Both may be evicted, or the service be made anew.
        world.node.untrack(service, TupleFlags::SERVICE);
        assert_eq!(client.heard(&mut world, By::Own, ACK), port);
        client.heard(&mut world, By::Other(1), SYN);
        client.serve(&mut world, SERVICE + 2);
        client.forget(&mut world, SERVICE);
        world.node.untrack(service, TupleFlags::SERVICE);
        assert_eq!(client.heard(&mut world, By::Own, ACK), port);
        client.hears(&mut world, port, ACK, By::Own);
        client.serve(&mut world, SERVICE);
        client.forget(&mut world, SERVICE + 2);
        assert_eq!(client.heard(&mut world, By::Own, ACK), port);
        client.hears(&mut world, port, ACK, By::Own);
        world.node.untrack(client.connection(5000), TupleFlags::IN);
        // It ends, and its port is used again.
        if client.protocol == TCP {
            client.heard(&mut world, By::Own, FIN | ACK);
            client.hears(&mut world, port, FIN | ACK, By::Own);
            assert_eq!(client.heard(&mut world, By::Own, SYN), 5000);
            client.hears(&mut world, 5000, SYN | ACK, By::Own);
        }
    }
}

#[test]
fn a_moved_connection_leaves_a_port_that_the_client_uses_himself() {
    let mut world = world();
    for client in clients(&world, &[TCP, UDP]) {
        client.heard(&mut world, By::Other(1), SYN);
        let port = client.heard(&mut world, By::Own, SYN);
        world.node.untrack(client.connection(port), TupleFlags::IN);
        let asked = client.at(By::Other(1)).into();
        world.got(&reported(client.frame((client.far, port), (client.near, 8080), SYN), asked));
        let next = client.heard(&mut world, By::Own, ACK);
        assert!(next != port && next != 5000, "{next}");
        client.hears(&mut world, next, ACK, By::Own);
        assert_eq!(client.heard(&mut world, By::Own, ACK), next);
        assert_eq!(client.row(&mut world, port).flags & CtFlags::MOVED, 0);
    }
}

/// A fragment at an offset in units of eight bytes, the first or the last; its datagram has no checksum.
fn fragment(src: IpAddr, dst: IpAddr, offset: u16, payload: &[u8]) -> Vec<u8> {
    let more = u16::from(offset == 0);
    match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            ethernet(ANY_MACS, 0x0800, &ipv4(src, dst, UDP, offset | more << 13, payload))
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let word = (offset << 3 | more).to_be_bytes();
            let extended = [&[UDP, 0][..], &word, &[0, 0, 0, 7], payload].concat();
            ethernet(ANY_MACS, 0x86dd, &ipv6(src, dst, 44, 64, &extended))
        }
        _ => panic!("{src} and {dst} are of different families"),
    }
}

#[test]
fn a_moved_datagrams_fragments_stay_together() {
    let mut world = world();
    for client in clients(&world, &[UDP]) {
        client.heard(&mut world, By::Other(1), SYN);
        let port = client.heard(&mut world, By::Own, SYN);
        let Client { near, own, far, .. } = client;
        let expected =
            [fragment(far, near, 0, &udp_header(port, 8080)), fragment(far, near, 1, &[7; 8])];
        let said = [fragment(far, own, 0, &udp_header(5000, PORT)), fragment(far, own, 1, &[7; 8])];
        for (said, expected) in said.iter().zip(expected) {
            assert_eq!(world.got(said), delivered(expected, &world.a));
        }
    }
    assert_eq!(world.node.drops(), [].into());
}

#[test]
fn a_connection_goes_on_when_its_service_is_made_anew() {
    let mut world = world();
    for client in clients(&world, &[TCP, UDP]) {
        client.heard(&mut world, By::Own, SYN);
        client.serve(&mut world, SERVICE + 2);
        client.forget(&mut world, SERVICE);
        assert_eq!(client.heard(&mut world, By::Own, ACK), 5000);
        client.hears(&mut world, 5000, ACK, By::Own);
        client.serve(&mut world, SERVICE);
    }
}

#[test]
fn two_services_of_the_backends_node_are_two_connections() {
    let mut world = world();
    let a = world.a;
    for client in clients(&world, &[TCP, UDP]) {
        let id = backend_id(client.own);
        let second = (client.own, PORT + 1);
        world.node.service(second.into(), client.protocol, open_service(SERVICE + 1), &[id]);
        assert_eq!(client.heard(&mut world, By::Own, SYN), 5000);
        let mut ports = Vec::new();
        for flags in OPENING {
            let got = world.got(&client.frame((client.far, 5000), second, flags));
            let port = ends_of(&got).from.1;
            let answer = client.frame((client.near, 8080), (client.far, port), flags | ACK);
            let got = world.node.send(&a, &answer);
            assert_eq!((ends_of(&got.frame).from, ends_of(&got.frame).to.1), (second, 5000));
            client.hears(&mut world, 5000, ACK, By::Own);
            ports.push(port);
        }
        assert!(ports[0] != 5000 && ports.iter().all(|port| *port == ports[0]), "{ports:?}");
    }
}

#[test]
fn errors_about_a_moved_connection_find_both_sides() {
    let mut world = world();
    let (up, a) = (world.up, world.a);
    for client in clients(&world, &[UDP]) {
        let Client { near, own, far, .. } = client;
        client.heard(&mut world, By::Other(1), SYN);
        let port = client.heard(&mut world, By::Own, SYN);
        assert_ne!(port, 5000);
        let inner = if own.is_ipv4() { 42 } else { 62 };
        let inside = |frame: &[u8]| ends_of(&[&frame[..14], &frame[inner..]].concat());
        // The backend complains about a question.
        let asked = sealed(udp(far, near, port, 8080));
        let got = world.node.send(&a, &sealed(unreachable(near, far, &asked)));
        assert_eq!(got.action, REDIRECT, "{:?}", world.node.drops());
        assert!(is_sealed(&got.frame));
        assert_eq!(ends_of(&got.frame).from.0, own);
        assert_eq!(inside(&got.frame).from, (far, 5000));
        assert_eq!(inside(&got.frame).to, (own, PORT));
        // The client complains about an answer.
        let answer = sealed(udp(own, far, PORT, 5000));
        let got = world.node.receive(&up, &sealed(unreachable(far, own, &answer)));
        assert_eq!(got.action, REDIRECT, "{:?}", world.node.drops());
        assert!(is_sealed(&got.frame));
        assert_eq!(ends_of(&got.frame).to.0, near);
        assert_eq!(inside(&got.frame).from, (near, 8080));
        assert_eq!(inside(&got.frame).to, (far, port));
    }
    assert_eq!(world.node.drops(), [].into());
}
