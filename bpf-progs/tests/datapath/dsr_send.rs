//! Direct server return, at the node that a client asks: his packets go on with their source.

use crate::common::outside::{World, open_service, route_outside};
use crate::common::*;
use std::net::{IpAddr, SocketAddr};
use volvox_bpf_progs::Features;
use volvox_bpf_progs::layouts::*;

const PORT: u16 = 30_080;
const IDENTITY: u32 = 777;
const OTHER_NODE: [u8; 4] = [192, 0, 2, 254];

/// An address of another node's endpoint.
fn elsewhere(like: IpAddr) -> IpAddr {
    if like.is_ipv4() { "10.2.0.7" } else { "f00d:2::7" }.parse().unwrap()
}

/// A node that forwards, with a service whose backend is behind another node of each family.
fn world() -> World {
    serving(dsr(), open_service(SERVICE))
}

fn serving(features: Features, service: LbRow) -> World {
    let mut world = World::with(features);
    route_outside();
    for (_, own, _) in world.families() {
        let (there, id) = (elsewhere(own), if own.is_ipv4() { 7 } else { 1007 });
        world.node.behind(there, IDENTITY, OTHER_NODE, false);
        world.node.backend(id, (there, 8080).into(), 0, BackendState::Active);
        for protocol in [TCP, UDP] {
            world.node.service((own, PORT).into(), protocol, service, &[id]);
        }
    }
    world
}

fn entry(world: &mut World, far: (IpAddr, u16), protocol: u8) -> Option<CtRow> {
    let connection = Connection { opener: far, other: (elsewhere(far.0), 8080), protocol };
    world.node.tracked(connection, TupleFlags::OUT)
}

#[test]
fn the_backend_hears_the_client_and_what_he_asked() {
    let mut world = world();
    for (_, own, far) in world.families() {
        let (there, asked) = (elsewhere(own), SocketAddr::from((own, PORT)));
        for flags in [SYN, SYN] {
            let got = world.got(&sealed(tcp(far, own, 5000, PORT, flags)));
            let plain = forwarded(sealed(tcp(far, there, 5000, 8080, flags)));
            assert_eq!(got, reported(plain, asked));
        }
        for flags in [ACK, FIN | ACK] {
            let got = world.got(&sealed(tcp(far, own, 5000, PORT, flags)));
            assert_eq!(got, forwarded(sealed(tcp(far, there, 5000, 8080, flags))), "it is known");
        }
        for _ in 0..2 {
            let got = world.got(&sealed(udp(far, own, 5000, PORT)));
            assert_eq!(got, reported(forwarded(sealed(udp(far, there, 5000, 8080))), asked));
        }
        let row = entry(&mut world, (far, 5000), UDP).unwrap();
        assert_eq!(row.flags, CtFlags::DSR | CtFlags::NODE_PORT);
        assert_eq!(row.rev_nat_index.get(), SERVICE);
    }
    assert_eq!(world.node.translations(), [], "the node does not stand in");
    assert_eq!(world.node.drops(), [].into());
}

#[test]
fn where_services_are_asked_a_connection_goes_as_its_service_says_when_it_is_opened() {
    let features = Features { dsr_by_service: true, ..dsr() };
    for direct in [true, false] {
        let flags2 = if direct { LbFlags2::DIRECT_RETURN } else { 0 };
        let mut world = serving(features, LbRow { flags2, ..open_service(SERVICE) });
        for (_, own, far) in world.families() {
            // Whether a new connection goes on with the client's source, and is told of.
            let goes_direct = |world: &mut World, port| {
                let before = world.node.translations().len();
                let got = world.got(&sealed(tcp(far, own, port, PORT, SYN)));
                let stands_in = world.node.translations().len() > before;
                assert_ne!(is_told(&got), stands_in);
                !stands_in
            };
            assert_eq!(goes_direct(&mut world, 5000), direct);
            // The service says otherwise: who is connected goes on as he was.
            let other = LbRow { flags2: flags2 ^ LbFlags2::DIRECT_RETURN, ..open_service(SERVICE) };
            let id = if own.is_ipv4() { 7 } else { 1007 };
            world.node.service((own, PORT).into(), TCP, other, &[id]);
            let got = world.got(&sealed(tcp(far, own, 5000, PORT, ACK)));
            let plain = forwarded(sealed(tcp(far, elsewhere(own), 5000, 8080, ACK)));
            assert_eq!(got == plain, direct, "with the client's address");
            assert_eq!(goes_direct(&mut world, 5001), !direct);
        }
        assert_eq!(world.node.drops(), [].into());
    }
}

#[test]
fn it_goes_by_the_overlay_where_that_leads_to_the_node() {
    let mut world = world();
    run_ip(&["link", "add", "overlay0", "type", "vxlan", "external", "dstport", "8472"]);
    let tunnel_ifindex = ifindex("overlay0");
    world.node.node(NodeRow { tunnel_ifindex, ..NodeRow::default() });
    for (_, own, far) in world.families() {
        let there = elsewhere(own);
        world.node.behind(there, IDENTITY, OTHER_NODE, true);
        let up = world.up;
        let got = world.node.receive(&up, &sealed(udp(far, own, 5000, PORT)));
        assert_eq!((got.action, got.mark), (REDIRECT, 0x0400), "{:?}", world.node.drops());
        assert_eq!(got.frame, reported(sealed(udp(far, there, 5000, 8080)), (own, PORT).into()));
    }
}

/// The frame that a client's goes on as, if the node stands in for him.
fn stands_in(world: &mut World, frame: Vec<u8>, port: u16) {
    let ends = ends_of(&frame);
    let got = world.got(&sealed(frame));
    let there = (elsewhere(ends.to.0), 8080);
    assert_eq!((ends_of(&got).from, ends_of(&got).to), ((ends.to.0, port), there));
}

#[test]
fn the_node_stands_in_where_the_backends_cannot_be_told() {
    let mut world = world();
    for (_, own, far) in world.families() {
        let there = elsewhere(own);
        let bits = if own.is_ipv4() { 32 } else { 128 };
        world.node.ipcache(there, bits, IDENTITY);
        stands_in(&mut world, udp(far, own, 50_001, PORT), 50_001);
        world.node.behind(there, 6, OTHER_NODE, false);
        stands_in(&mut world, udp(far, own, 50_002, PORT), 50_002);
        world.node.behind(there, IDENTITY, OTHER_NODE, false);
        stands_in(&mut world, udp(far, own, 50_001, PORT), 50_001);
        stands_in(&mut world, udp(far, own, 50_002, PORT), 50_002);
        for (number, inside) in [(3, 6), (4, 888)] {
            world.node.ipcache(far, bits, inside);
            stands_in(&mut world, udp(far, own, 50_000 + number, PORT), 50_000 + number);
        }
        world.node.ipcache(far, bits, 1 << 24 | 5);
        let got = world.got(&sealed(udp(far, own, 50_005, PORT)));
        assert_eq!(
            got,
            reported(forwarded(sealed(udp(far, there, 50_005, 8080))), (own, PORT).into())
        );
        world.node.ipcache(far, bits, if own.is_ipv4() { 9 } else { 10 });
    }
    assert_eq!(world.node.drops(), [].into());
}

/// A datagram with so many bytes of IP.
fn long(from: (IpAddr, u16), to: (IpAddr, u16), bytes: usize) -> Vec<u8> {
    let headers = if from.0.is_ipv4() { 20 } else { 40 };
    let mut l4 = udp_header(from.1, to.1);
    l4.resize(bytes - headers, 0);
    let length = (l4.len() as u16).to_be_bytes();
    l4[4..6].copy_from_slice(&length);
    ip(from.0, to.0, UDP, &l4)
}

#[test]
fn where_the_option_has_no_room_the_node_stands_in_and_keeps_to_it() {
    let mut world = world();
    for (_, own, far) in world.families() {
        let option = if own.is_ipv4() { 8 } else { 24 };
        let there = elsewhere(own);
        let fits = long((far, 50_001), (own, PORT), 1500 - option);
        let got = world.got(&sealed(fits));
        let plain = sealed(long((far, 50_001), (there, 8080), 1500 - option));
        assert_eq!(got, reported(forwarded(plain), (own, PORT).into()));
        let whole = world.got(&sealed(long((far, 50_001), (own, PORT), 1500)));
        let plain = sealed(long((far, 50_001), (there, 8080), 1500));
        assert_eq!(whole, forwarded(plain), "the backend's node knows by now");
        let too_long = long((far, 50_002), (own, PORT), 1501 - option);
        stands_in(&mut world, too_long, 50_002);
        stands_in(&mut world, udp(far, own, 50_002, PORT), 50_002);
        let row = entry(&mut world, (far, 50_002), UDP).unwrap();
        assert_eq!(row.flags, CtFlags::NODE_PORT);
    }
}

#[test]
fn a_connection_that_is_forgotten_goes_on_as_it_did() {
    let mut world = world();
    for (_, own, far) in world.families() {
        let there = elsewhere(own);
        let bits = if own.is_ipv4() { 32 } else { 128 };
        let of = |sport| Connection { opener: (far, sport), other: (there, 8080), protocol: TCP };
        world.got(&sealed(tcp(far, own, 50_001, PORT, SYN)));
        world.node.untrack(of(50_001), TupleFlags::OUT);
        let got = world.got(&sealed(tcp(far, own, 50_001, PORT, ACK)));
        assert_eq!(got, forwarded(sealed(tcp(far, there, 50_001, 8080, ACK))));
        world.node.ipcache(there, bits, IDENTITY);
        stands_in(&mut world, tcp(far, own, 50_002, PORT, SYN), 50_002);
        world.node.behind(there, IDENTITY, OTHER_NODE, false);
        world.node.untrack(of(50_002), TupleFlags::OUT);
        stands_in(&mut world, tcp(far, own, 50_002, PORT, ACK), 50_002);
    }
}

#[test]
fn for_what_the_backends_node_sends_back_the_node_stands_in() {
    let mut world = world();
    for (_, own, far) in world.families() {
        let (there, asked) = (elsewhere(own), SocketAddr::from((own, PORT)));
        for protocol in [TCP, UDP] {
            let says = |flags| {
                sealed(match protocol {
                    TCP => tcp(far, own, 50_001, PORT, flags),
                    _ => udp(far, own, 50_001, PORT),
                })
            };
            assert!(is_told(&world.got(&says(SYN))));
            let got = world.got(&blanked(reported(says(SYN), asked)));
            let mut plain = got.clone();
            plain.drain(if own.is_ipv4() { 34..42 } else { 54..78 });
            let ends = ends_of(&plain);
            assert_eq!((ends.from, ends.to), ((own, 50_001), (there, 8080)));
            for flags in [SYN, ACK] {
                let ends = ends_of(&world.got(&says(flags)));
                assert_eq!((ends.from, ends.to), ((own, 50_001), (there, 8080)));
                let answer = sealed(match protocol {
                    TCP => tcp(there, own, 8080, 50_001, flags | ACK),
                    _ => udp(there, own, 8080, 50_001),
                });
                let ends = ends_of(&world.got(&answer));
                assert_eq!((ends.from, ends.to), ((own, PORT), (far, 50_001)));
            }
            assert_eq!(entry(&mut world, (far, 50_001), protocol).unwrap().flags & CtFlags::DSR, 0);
        }
    }
    assert_eq!(world.node.drops(), [].into());
}

#[test]
fn what_only_seems_to_be_sent_back_changes_nothing() {
    let mut world = world();
    for (_, own, far) in world.families() {
        let asked = SocketAddr::from((own, PORT));
        let option = if own.is_ipv4() { 34 } else { 56 };
        for (protocol, flags) in [(TCP, SYN), (UDP, 0)] {
            let says = |flags| {
                sealed(match protocol {
                    TCP => tcp(far, own, 50_001, PORT, flags),
                    _ => udp(far, own, 50_001, PORT),
                })
            };
            world.got(&says(SYN));
            let mut forged = blanked(reported(says(flags), asked));
            forged[option] = 0x1f;
            world.got(&forged);
            if protocol == TCP {
                world.got(&says(ACK));
                world.got(&blanked(reported(says(SYN), asked)));
            }
            let row = entry(&mut world, (far, 50_001), protocol).unwrap();
            assert_eq!(row.flags & CtFlags::DSR, CtFlags::DSR);
        }
    }
    assert_eq!(world.node.translations(), [], "the node does not stand in");
}

#[test]
fn errors_about_answers_find_the_backend() {
    let mut world = world();
    for (_, own, far) in world.families() {
        let there = elsewhere(own);
        world.got(&sealed(udp(far, own, 5000, PORT)));
        // What the client was answered, as from the service.
        let answer = sealed(udp(own, far, PORT, 5000));
        let got = world.got(&sealed(unreachable(far, own, &answer)));
        let ends = ends_of(&got);
        assert_eq!((ends.from.0, ends.to.0), (far, there));
        let inner = if own.is_ipv4() { 42 } else { 62 };
        let inside = [&got[..14], &got[inner..]].concat();
        assert_eq!(ends_of(&inside).from, (there, 8080));
        assert_eq!(ends_of(&inside).to, (far, 5000));
    }
    assert_eq!(world.node.drops(), [].into());
}
