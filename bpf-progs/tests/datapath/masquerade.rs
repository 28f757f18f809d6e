//! What endpoints send to outside the cluster gets the address of the device that it leaves by.

use crate::common::outside::{World, comparable};
use crate::common::*;

#[test]
fn a_flow_has_the_devices_address_and_its_own_port() {
    let mut world = World::new();
    for (near, own, far) in world.families() {
        for (out, out_there, back, back_here) in [
            (
                tcp(near, far, 40_000, 443, SYN),
                tcp(own, far, 40_000, 443, SYN),
                tcp(far, own, 443, 40_000, SYN | ACK),
                tcp(far, near, 443, 40_000, SYN | ACK),
            ),
            (
                udp(near, far, 40_000, 53),
                udp(own, far, 40_000, 53),
                udp(far, own, 53, 40_000),
                udp(far, near, 53, 40_000),
            ),
            (
                echo(near, far, 40_000, false),
                echo(own, far, 40_000, false),
                echo(far, own, 40_000, true),
                echo(far, near, 40_000, true),
            ),
        ] {
            for _ in 0..2 {
                assert_eq!(world.sent(&sealed(out.clone())), sealed(out_there.clone()));
                let expected = delivered(sealed(back_here.clone()), &world.a);
                assert_eq!(world.got(&sealed(back.clone())), expected);
            }
        }
    }
    assert_eq!(world.node.translations().len(), 12, "each flow has two rows");
    assert_eq!(world.node.drops(), [].into());
}

#[test]
fn a_sender_from_outside_hears_its_own_packet_again_in_an_error() {
    let mut world = World::new();
    for (near, own, far) in world.families() {
        for (asked, answered_there, answered_here) in [
            (udp(near, far, 1000, 53), true, udp(far, near, 53, 1000)),
            (echo(near, far, 1000, false), false, echo(far, near, 1000, true)),
        ] {
            let out = world.sent(&sealed(asked));
            let answer = answer_to(&out, answered_there);
            assert_eq!(world.got(&answer), delivered(sealed(answered_here.clone()), &world.a));
            // The endpoint complains about the answer, as it got it.
            let error = sealed(unreachable(near, far, &sealed(answered_here)));
            let got = world.sent(&error);
            assert!(is_sealed(&got));
            assert_eq!(comparable(&got), comparable(&unreachable(own, far, &answer)));
        }
    }
    assert_eq!(world.node.drops(), [].into());
}

#[test]
fn an_endpoint_hears_its_own_packet_again_in_an_error_of_the_far_end_or_of_a_router() {
    let mut world = World::new();
    for (near, own, far) in world.families() {
        let router = if far.is_ipv4() { "203.0.113.1" } else { "2001:db8:ff::1" };
        for sent in [udp(near, far, 1000, 53), echo(near, far, 1000, false)].map(sealed) {
            let out = world.sent(&sent);
            for teller in [far, router.parse().unwrap()] {
                let got = world.got(&sealed(unreachable(teller, own, &out)));
                assert!(is_sealed(&got));
                let expected = delivered(unreachable(teller, near, &sent), &world.a);
                assert_eq!(comparable(&got), comparable(&expected));
            }
        }
    }
    assert_eq!(world.node.drops(), [].into());
}

#[test]
fn an_error_about_nothing_is_the_stacks() {
    let mut world = World::new();
    for (_, own, far) in world.families() {
        let error = sealed(unreachable(far, own, &udp(own, far, 40_000, 53)));
        let got = world.node.receive(&world.up, &error);
        assert_eq!((got.action, got.frame), (OK, error));
    }
}

/// The answer to a frame that went to the wire: ends exchanged, an echo's request made a reply.
fn answer_to(frame: &[u8], has_ports: bool) -> Vec<u8> {
    let ends = ends_of(frame);
    sealed(match has_ports {
        true => udp(ends.to.0, ends.from.0, ends.to.1, ends.from.1),
        false => echo(ends.to.0, ends.from.0, ends.identifier, true),
    })
}
