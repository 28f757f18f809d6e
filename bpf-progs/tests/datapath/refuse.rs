//! What nobody serves is refused at once, as if the service did it, and never leaves the node.

use crate::common::outside::{World, open_service, route_outside};
use crate::common::*;
use std::net::IpAddr;
use volvox_bpf_progs::Features;
use volvox_bpf_progs::layouts::*;

const PORT: u16 = 30_080;

/// The answer of nobody to a frame.
fn answer(frame: &[u8]) -> Vec<u8> {
    let Ends { from, to, .. } = ends_of(frame);
    let protocol = if from.0.is_ipv4() { frame[23] } else { frame[20] };
    let mut answer = match protocol {
        TCP => {
            let mut reset = tcp(to.0, from.0, to.1, from.1, RST | ACK);
            let start = reset.len() - 20;
            // Of an attempt with the number 1.
            reset[start + 4..start + 16].copy_from_slice(&[
                0,
                0,
                0,
                0,
                0,
                0,
                0,
                2,
                0x50,
                RST | ACK,
                0,
                0,
            ]);
            reset
        }
        _ => {
            let quoted = &frame[..14 + if from.0.is_ipv4() { 28 } else { 48 }];
            let mut error = unreachable(to.0, from.0, quoted);
            let start = error.len() - quoted.len() + 14 - 4;
            error[start..start + 4].fill(0);
            error
        }
    };
    answer[..6].copy_from_slice(&frame[6..12]);
    answer[6..12].copy_from_slice(&frame[..6]);
    if from.0.is_ipv4() {
        // No identification.
        answer[18..20].fill(0);
        answer[24..26].fill(0);
        let sum = checksum(&answer[14..34]);
        answer[24..26].copy_from_slice(&sum.to_be_bytes());
    }
    sealed(answer)
}

/// Frames from one address to a port of another.
fn attempts(from: IpAddr, to: IpAddr, port: u16) -> [Vec<u8>; 3] {
    [
        tcp(from, to, 1000, port, SYN),
        udp(from, to, 1000, port),
        ip(from, to, SCTP, &sctp_header(1000, port, SCTP_INIT)),
    ]
}

fn serve_nobody(node: &mut Node, at: (IpAddr, u16), row: LbRow) {
    for protocol in [TCP, UDP, SCTP] {
        node.service(at.into(), protocol, row, &[]);
    }
}

#[test]
fn an_endpoint_hears_that_nobody_serves() {
    let mut world = World::new();
    let a = world.a;
    for (near, ..) in world.families() {
        let service = service_address(near);
        serve_nobody(&mut world.node, (service, 80), random_service(SERVICE));
        // The service has nobody at its port, and no other port.
        for port in [80, 81] {
            for sent in attempts(near, service, port) {
                let sent = sealed(sent);
                let got = world.node.send(&a, &sent);
                assert_eq!(got.action, REDIRECT, "{:?}", world.node.drops());
                assert_eq!(got.frame, answer(&sent));
                assert!(is_sealed(&got.frame));
            }
        }
    }
    assert_eq!(world.node.drops(), [(158, 12)].into(), "each is told as a drop as well");
}

#[test]
fn clients_outside_hear_it_too() {
    let mut world = World::new();
    route_outside();
    let up = world.up;
    for (_, own, far) in world.families() {
        let external: IpAddr =
            if own.is_ipv4() { "203.0.113.80" } else { "2001:db8:8::80" }.parse().unwrap();
        let row = LbRow { flags: LbFlags::EXTERNAL_IP, ..random_service(SERVICE) };
        serve_nobody(&mut world.node, (external, 80), row);
        for protocol in [TCP, UDP, SCTP] {
            // No row for the node's other ports.
            let key = LbKey::new((own, PORT).into(), protocol, LbScope::External);
            world.node.slots(key, open_service(SERVICE + 1), &[], &[]);
        }
        for at in [(external, 80), (external, 81), (own, PORT)] {
            for sent in attempts(far, at.0, at.1) {
                let sent = sealed(sent);
                let got = world.node.receive(&up, &sent);
                assert_eq!((got.action, got.mark), (REDIRECT, SNAT_DONE), "{at:?}");
                assert_eq!(got.frame, answer(&sent));
            }
        }
        let sent = sealed(udp(far, own, 1000, 22));
        assert_eq!(world.node.receive(&up, &sent).action, OK, "the node answers for itself");
        let elsewhere: IpAddr =
            if own.is_ipv4() { "203.0.113.81" } else { "2001:db8:8::81" }.parse().unwrap();
        let sent = sealed(udp(far, elsewhere, 1000, 81));
        assert_eq!(world.node.receive(&up, &sent).action, OK, "that is no service's");
    }
}

#[test]
fn who_is_connected_is_not_cut_off() {
    let mut world = World::new();
    let a = world.a;
    for (near, ..) in world.families() {
        let service = service_address(near);
        serve_nobody(&mut world.node, (service, 80), random_service(SERVICE));
        for flags in [ACK, FIN | ACK, RST] {
            let sent = sealed(tcp(near, service, 1000, 80, flags));
            assert_eq!(world.node.send(&a, &sent).action, SHOT, "its backend may come back");
        }
    }
}

#[test]
fn nothing_is_said_where_that_is_asked_for() {
    let mut world = World::with(Features { refuse: false, ..Features::default() });
    let a = world.a;
    for (near, ..) in world.families() {
        let service = service_address(near);
        serve_nobody(&mut world.node, (service, 80), random_service(SERVICE));
        for port in [80, 81] {
            for sent in attempts(near, service, port) {
                assert_eq!(world.node.send(&a, &sealed(sent)).action, SHOT);
            }
        }
    }
}
