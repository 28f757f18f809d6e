//! Services that clients outside use: backends here, elsewhere, and the node itself.

use crate::common::outside::{World, open_service, route_outside};
use crate::common::*;
use std::net::IpAddr;
use volvox_bpf_progs::layouts::*;

const PORT: u16 = 30_080;

fn allow(key: PolicyKey) -> (PolicyKey, PolicyRow) {
    (key, PolicyRow::allow(&key, 1))
}

/// An endpoint that hears everybody, a service on the node's address, and a node that forwards.
fn world() -> World {
    let mut world = World::new();
    route_outside();
    let a = world.a;
    world.node.rules(&a, &[allow(PolicyKey::any(Direction::Ingress, 0))]);
    world
}

/// A service of the node's address with one backend.
fn serve(world: &mut World, port: u16, id: u16, backend: IpAddr) {
    let own = world.up.ip(backend);
    let number = u32::from(id) + if own.is_ipv4() { 0 } else { 1000 };
    world.node.backend(number, (backend, 8080).into(), 0, BackendState::Active);
    for protocol in [TCP, UDP] {
        world.node.service((own, port).into(), protocol, open_service(id), &[number]);
    }
}

/// An address of another node's endpoint.
fn elsewhere(like: IpAddr) -> IpAddr {
    if like.is_ipv4() { "10.2.0.7" } else { "f00d:2::7" }.parse().unwrap()
}

#[test]
fn an_endpoint_serves_and_its_client_hears_the_service() {
    let mut world = world();
    let a = world.a;
    for (near, own, far) in world.families() {
        serve(&mut world, PORT, SERVICE, near);
        for (asked, heard, answer, answered) in [
            (
                tcp(far, own, 5000, PORT, SYN),
                tcp(far, near, 5000, 8080, SYN),
                tcp(near, far, 8080, 5000, SYN | ACK),
                tcp(own, far, PORT, 5000, SYN | ACK),
            ),
            (
                udp(far, own, 5000, PORT),
                udp(far, near, 5000, 8080),
                udp(near, far, 8080, 5000),
                udp(own, far, PORT, 5000),
            ),
        ] {
            for _ in 0..2 {
                assert_eq!(world.got(&sealed(asked.clone())), delivered(sealed(heard.clone()), &a));
                let got = world.node.send(&a, &sealed(answer.clone()));
                assert_eq!((got.action, got.mark), (REDIRECT, SNAT_DONE));
                assert_eq!(got.frame, forwarded(sealed(answered.clone())));
            }
        }
        let connection = Connection { opener: (far, 5000), other: (near, 8080), protocol: TCP };
        let row = world.node.tracked(connection, TupleFlags::IN).unwrap();
        assert_eq!((row.rev_nat_index.get(), row.flags), (SERVICE, CtFlags::NODE_PORT));
    }
    assert_eq!(world.node.drops(), [].into());
}

#[test]
fn a_backend_elsewhere_answers_this_node_which_answers_the_client() {
    let mut world = world();
    let up = world.up;
    for (_, own, far) in world.families() {
        let there = elsewhere(own);
        serve(&mut world, PORT, SERVICE, there);
        for flags in [SYN, ACK] {
            let sent = world.got(&sealed(tcp(far, own, 50_000, PORT, flags)));
            assert_eq!(sent, forwarded(sealed(tcp(own, there, 50_000, 8080, flags))));
            let out = world.node.emit(&up, SNAT_DONE, &sent);
            assert_eq!((out.action, out.frame), (OK, sent), "it leaves as it is");
            let answer = world.got(&sealed(tcp(there, own, 8080, 50_000, flags | ACK)));
            assert_eq!(answer, forwarded(sealed(tcp(own, far, PORT, 50_000, flags | ACK))));
        }
        let connection = Connection { opener: (far, 50_000), other: (there, 8080), protocol: TCP };
        let row = world.node.tracked(connection, TupleFlags::OUT).unwrap();
        let flags = CtFlags::NODE_PORT | CtFlags::SEEN_NON_SYN;
        assert_eq!((row.rev_nat_index.get(), row.flags), (SERVICE, flags));
        assert!(row.rx_flags_seen & SYN != 0, "the answers count");
        let other = world.got(&sealed(udp(far, own, 7, PORT)));
        assert!(ends_of(&other).from.1 >= 32_768, "a port of the range stands for the client's");
    }
    assert_eq!(world.node.drops(), [].into());
}

#[test]
fn the_node_itself_serves() {
    let mut world = world();
    let up = world.up;
    for (_, own, far) in world.families() {
        serve(&mut world, PORT, SERVICE, own);
        for _ in 0..2 {
            let got = world.node.receive(&up, &sealed(udp(far, own, 5000, PORT)));
            assert_eq!((got.action, got.frame), (OK, sealed(udp(far, own, 5000, 8080))));
            let got = world.node.emit(&up, 0, &sealed(udp(own, far, 8080, 5000)));
            assert_eq!((got.action, got.frame), (OK, sealed(udp(own, far, PORT, 5000))));
        }
        let plain = sealed(udp(own, far, 8080, 5001));
        let got = world.node.emit(&up, 0, &plain);
        assert_eq!((got.action, got.frame), (OK, plain), "nobody else is answered so");
    }
    assert_eq!(world.node.drops(), [].into());
}

#[test]
fn what_carries_the_overlay_is_no_services() {
    let mut world = world();
    let up = world.up;
    // A port that may stand for another's may be the overlay's too: then answers come there as well.
    for (tunnel, is_served) in [(PORT, false), (PORT + 1, true), (50_000, true)] {
        let tunnel_port = Be16::new(tunnel);
        world.node.node(NodeRow { tunnel_ifindex: 7, tunnel_port, ..NodeRow::default() });
        for (near, own, far) in world.families() {
            let port = if tunnel == 50_000 { tunnel } else { PORT };
            serve(&mut world, port, SERVICE, near);
            let outer = sealed(udp(far, own, 50_001, port));
            let got = world.node.receive(&up, &outer);
            assert_eq!(
                (got.action, got.frame == outer),
                if is_served { (REDIRECT, false) } else { (OK, true) }
            );
            let got = world.node.receive(&up, &sealed(tcp(far, own, 50_001, port, SYN)));
            assert_eq!(got.action, REDIRECT, "only datagrams carry it");
        }
    }
    assert_eq!(world.node.drops(), [].into());
}

#[test]
fn source_ranges_hold() {
    let mut world = world();
    let up = world.up;
    for (near, own, far) in world.families() {
        serve(&mut world, PORT, SERVICE, near);
        let ranged = LbRow {
            flags: open_service(SERVICE).flags | LbFlags::SOURCE_RANGE,
            ..open_service(SERVICE)
        };
        let id = u32::from(SERVICE) + if own.is_ipv4() { 0 } else { 1000 };
        world.node.service((own, PORT).into(), UDP, ranged, &[id]);
        let asked = sealed(udp(far, own, 5000, PORT));
        assert_eq!(world.node.drop_of(|node| node.receive(&up, &asked)), Some(177));
        world.node.source_range(SERVICE, far, if far.is_ipv4() { 24 } else { 64 });
        assert_eq!(world.node.drop_of(|node| node.receive(&up, &asked)), None);
        let other = if far.is_ipv4() { "203.0.113.9" } else { "2001:db8:9::9" }.parse().unwrap();
        let asked = sealed(udp(other, own, 5000, PORT));
        assert_eq!(world.node.drop_of(|node| node.receive(&up, &asked)), Some(177));
        // Turned round they name who is kept out.
        let turned = LbRow { flags2: LbFlags2::QUARANTINED_OR_DENY_RANGE, ..ranged };
        world.node.service((own, PORT).into(), UDP, turned, &[id]);
        assert_eq!(world.node.drop_of(|node| node.receive(&up, &asked)), None);
        let asked = sealed(udp(far, own, 5001, PORT));
        assert_eq!(world.node.drop_of(|node| node.receive(&up, &asked)), Some(177));
    }
}

#[test]
fn what_is_for_the_cluster_is_not_for_clients_outside() {
    let mut world = world();
    let up = world.up;
    for (near, own, far) in world.families() {
        serve(&mut world, PORT, SERVICE, near);
        let inner = service_address(near);
        let id = u32::from(SERVICE) + if own.is_ipv4() { 0 } else { 1000 };
        world.node.service((inner, 80).into(), UDP, random_service(SERVICE + 1), &[id]);
        let asked = sealed(udp(far, inner, 5000, 80));
        assert_eq!(world.node.drop_of(|node| node.receive(&up, &asked)), Some(174));
        // Unless that is asked for.
        let open = LbRow { flags: LbFlags::ROUTABLE, ..random_service(SERVICE + 1) };
        world.node.service((inner, 80).into(), UDP, open, &[id]);
        assert_eq!(world.node.drop_of(|node| node.receive(&up, &asked)), None);
        let other = sealed(udp(far, own, 5000, 22));
        let got = world.node.receive(&up, &other);
        assert_eq!((got.action, got.frame), (OK, other), "a port that is no service's");
    }
}

#[test]
fn clients_outside_see_the_outer_scope() {
    let mut world = world();
    for (near, own, far) in world.families() {
        serve(&mut world, PORT, SERVICE, near);
        let inner = if own.is_ipv4() { 77 } else { 1077 };
        world.node.backend(inner, (elsewhere(own), 9090).into(), 0, BackendState::Active);
        let both = LbRow { flags2: LbFlags2::TWO_SCOPES, ..open_service(SERVICE) };
        let id = u32::from(SERVICE) + if own.is_ipv4() { 0 } else { 1000 };
        for (scope, backend) in [(LbScope::External, id), (LbScope::Internal, inner)] {
            world.node.slots(LbKey::new((own, PORT).into(), UDP, scope), both, &[backend], &[]);
        }
        for sport in 5000..5008 {
            let expected = delivered(sealed(udp(far, near, sport, 8080)), &world.a);
            assert_eq!(world.got(&sealed(udp(far, own, sport, PORT))), expected);
        }
    }
}

#[test]
fn policy_sees_the_client() {
    let mut world = world();
    let (up, a) = (world.up, world.a);
    for (near, own, far) in world.families() {
        serve(&mut world, PORT, SERVICE, near);
        let asked = sealed(udp(far, own, 5000, PORT));
        let outside = if far.is_ipv4() { 9 } else { 10 };
        world.node.rules(&a, &[allow(PolicyKey::any(Direction::Ingress, 777))]);
        assert_eq!(world.node.drop_of(|node| node.receive(&up, &asked)), Some(133));
        world
            .node
            .rules(&a, &[allow(PolicyKey::ports(Direction::Ingress, outside, UDP, 8080, 16))]);
        assert_eq!(world.node.drop_of(|node| node.receive(&up, &asked)), None);
    }
}

#[test]
fn the_same_ends_may_meet_by_another_service_or_by_none() {
    let mut world = world();
    let a = world.a;
    for (near, own, far) in world.families() {
        serve(&mut world, PORT, SERVICE, near);
        serve(&mut world, PORT + 1, SERVICE + 1, near);
        for port in [PORT, PORT + 1, PORT] {
            world.got(&sealed(udp(far, own, 5000, port)));
            let got = world.node.send(&a, &sealed(udp(near, far, 8080, 5000)));
            assert_eq!(got.frame, forwarded(sealed(udp(own, far, port, 5000))));
        }
        world.got(&sealed(udp(far, near, 5000, 8080)));
        let plain = sealed(udp(near, far, 8080, 5000));
        let got = world.node.send(&a, &plain);
        assert_eq!((got.action, got.frame, got.mark), (OK, plain, a.identity << 16 | SNAT_DONE));
        world.got(&sealed(udp(far, own, 5000, PORT)));
        let got = world.node.send(&a, &sealed(udp(near, far, 8080, 5000)));
        assert_eq!(got.frame, forwarded(sealed(udp(own, far, PORT, 5000))));
    }
    assert_eq!(world.node.drops(), [].into());
}

#[test]
fn a_backend_elsewhere_may_change_services_too() {
    let mut world = world();
    for (_, own, far) in world.families() {
        serve(&mut world, PORT, SERVICE, elsewhere(own));
        serve(&mut world, PORT + 1, SERVICE + 1, elsewhere(own));
        for port in [PORT, PORT + 1, PORT] {
            world.got(&sealed(udp(far, own, 50_000, port)));
            let answer = world.got(&sealed(udp(elsewhere(own), own, 8080, 50_000)));
            assert_eq!(answer, forwarded(sealed(udp(own, far, port, 50_000))));
        }
    }
}

#[test]
fn nobody_outside_speaks_for_this_node_or_its_endpoints_to_others() {
    let mut world = world();
    let up = world.up;
    for (near, own, far) in world.families() {
        let there = elsewhere(own);
        serve(&mut world, PORT, SERVICE, there);
        for (forged, is_own) in [(own, true), (near, false)] {
            let to_service = sealed(udp(forged, own, 5000, PORT));
            assert_eq!(world.node.drop_of(|node| node.receive(&up, &to_service)), Some(132));
            let past = sealed(udp(forged, there, 5000, 53));
            let dropped = world.node.drop_of(|node| node.receive(&up, &past));
            // What the stack does with the endpoint's is its routes' matter: it goes as a stranger's.
            assert_eq!(dropped, is_own.then_some(132), "{forged}");
        }
        let past = sealed(udp(far, there, 5000, 53));
        assert_eq!(world.node.receive(&up, &past).action, OK);
        world.got(&sealed(udp(far, own, 5000, PORT)));
    }
}

#[test]
fn where_no_route_leads_a_packet_drops() {
    let mut world = world();
    let (up, a) = (world.up, world.a);
    for (near, own, far) in world.families() {
        serve(&mut world, PORT, SERVICE, near);
        serve(&mut world, PORT + 1, SERVICE + 1, elsewhere(own));
        world.got(&sealed(udp(far, own, 5000, PORT)));
        let mut last = sealed(udp(far, own, 5000, PORT + 1));
        last[if far.is_ipv4() { 22 } else { 21 }] = 1;
        assert_eq!(world.node.drop_of(|node| node.receive(&up, &last)), Some(196));
        let family = if far.is_ipv4() { "-4" } else { "-6" };
        run_ip(&[family, "route", "del", "default"]);
        let answer = sealed(udp(near, far, 8080, 5000));
        assert_eq!(world.node.drop_of(|node| node.send(&a, &answer)), Some(169));
        let asked = sealed(udp(far, own, 5000, PORT + 1));
        assert_eq!(world.node.drop_of(|node| node.receive(&up, &asked)), Some(169));
    }
}
