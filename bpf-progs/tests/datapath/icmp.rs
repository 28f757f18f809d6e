//! ICMP: echoes are connections, errors belong to the connection that they are about.

use crate::common::*;
use std::net::IpAddr;
use volvox_bpf_progs::layouts::*;

fn allow(key: PolicyKey) -> (PolicyKey, PolicyRow) {
    (key, PolicyRow::allow(&key, 0))
}

/// Two endpoints: a may send to b and to the world, nobody else may anything.
fn pair() -> (Node, Endpoint, Endpoint) {
    let mut node = Node::new();
    let (a, b) = (node.endpoint(1), node.endpoint(2));
    node.rules(&a, &[allow(PolicyKey::any(Direction::Egress, 0))]);
    node.rules(&b, &[allow(PolicyKey::any(Direction::Ingress, a.identity))]);
    (node, a, b)
}

#[test]
fn an_echo_is_replied_to_without_a_rule() {
    let (mut node, a, b) = pair();
    for (src, dst) in [(a.v4(), b.v4()), (a.v6(), b.v6())] {
        let reply = echo(dst, src, 7, true);
        assert_eq!(node.drop_of(|node| node.send(&b, &reply)), Some(133), "to nothing");
        assert_eq!(node.drop_of(|node| node.send(&a, &echo(src, dst, 7, false))), None);
        assert_eq!(node.drop_of(|node| node.send(&b, &reply)), None);
        assert_eq!(
            node.drop_of(|node| node.send(&b, &echo(dst, src, 8, true))),
            Some(133),
            "another echo"
        );
        assert_eq!(
            node.drop_of(|node| node.send(&b, &echo(dst, src, 7, false))),
            Some(133),
            "b asks itself"
        );
    }
}

#[test]
fn an_echo_is_tracked_by_its_identifier() {
    let (mut node, a, b) = pair();
    for (src, dst, protocol) in [(a.v4(), b.v4(), ICMP), (a.v6(), b.v6(), ICMPV6)] {
        node.send(&a, &echo(src, dst, 7, false));
        let connection = Connection { opener: (src, 7), other: (dst, 0), protocol };
        for tuple in [TupleFlags::OUT, TupleFlags::IN] {
            assert!(node.tracked(connection, tuple).is_some(), "{connection:?} {tuple}");
        }
    }
}

#[test]
fn an_error_about_a_known_connection_passes() {
    let (mut node, a, b) = pair();
    for (src, dst) in [(a.v4(), b.v4()), (a.v6(), b.v6())] {
        for sent in
            [udp(src, dst, 1000, 80), tcp(src, dst, 1000, 80, SYN), echo(src, dst, 9, false)]
        {
            let error = unreachable(dst, src, &sent);
            assert_eq!(node.drop_of(|node| node.send(&b, &error)), Some(133), "about nothing");
            assert_eq!(node.drop_of(|node| node.send(&a, &sent)), None);
            let before = node.tracked_count();
            assert_eq!(node.drop_of(|node| node.send(&b, &error)), None);
            assert_eq!(node.tracked_count(), before, "an error is no connection");
        }
    }
}

#[test]
fn an_error_from_a_router_on_the_way_passes() {
    let (mut node, a, _) = pair();
    for (far, router) in [("192.0.2.1", "198.51.100.1"), ("2001:db8::1", "2001:db8:1::1")] {
        let (far, router): (IpAddr, IpAddr) = (far.parse().unwrap(), router.parse().unwrap());
        let sent = tcp(a.ip(far), far, 1000, 443, SYN);
        let error = unreachable(router, a.ip(far), &sent);
        assert_eq!(node.drop_of(|node| node.deliver(&a, 0, &error)), Some(133));
        assert_eq!(node.send(&a, &sent).action, OK);
        assert_eq!(node.drop_of(|node| node.deliver(&a, 0, &error)), None);
    }
}

#[test]
fn an_error_about_a_reply_passes() {
    let (mut node, a, b) = pair();
    for (src, dst) in [(a.v4(), b.v4()), (a.v6(), b.v6())] {
        node.send(&a, &udp(src, dst, 1000, 80));
        let reply = udp(dst, src, 80, 1000);
        assert_eq!(node.drop_of(|node| node.send(&b, &reply)), None);
        node.rules(&a, &[]);
        assert_eq!(node.drop_of(|node| node.send(&a, &unreachable(src, dst, &reply))), None);
        node.rules(&a, &[allow(PolicyKey::any(Direction::Egress, 0))]);
    }
}

#[test]
fn an_error_must_be_told_to_the_sender() {
    let (mut node, a, b) = pair();
    let c = node.endpoint(3);
    for (src, dst) in [(a.v4(), b.v4()), (a.v6(), b.v6())] {
        let sent = udp(src, dst, 1000, 80);
        node.send(&a, &sent);
        let stray = unreachable(dst, c.ip(dst), &sent);
        assert_eq!(node.drop_of(|node| node.send(&b, &stray)), Some(133));
    }
}

/// Ways on which errors about a connection come, and who tells them.
#[test]
fn a_third_party_tells_nothing() {
    let (mut node, a, b) = pair();
    let c = node.endpoint(3);
    for (src, dst) in [(a.v4(), b.v4()), (a.v6(), b.v6())] {
        let sent =
            [udp(src, dst, 1000, 80), tcp(src, dst, 1000, 80, SYN), echo(src, dst, 9, false)];
        let answers = [udp(dst, src, 80, 1000), tcp(dst, src, 80, 1000, SYN | ACK)];
        for frame in &sent {
            assert_eq!(node.drop_of(|node| node.send(&a, frame)), None);
        }
        // About what a sent, and about what b answered; a and b need the errors, c knows nothing.
        for (reported, about) in
            sent.iter().map(|it| (a, it)).chain(answers.iter().map(|it| (b, it)))
        {
            let forged = unreachable(c.ip(src), reported.ip(src), about);
            assert_eq!(node.drop_of(|node| node.send(&c, &forged)), Some(133));
            // The same if it goes through the stack, marked as the third one's.
            let mark = c.identity << 16 | 0x0f00;
            assert_eq!(node.drop_of(|node| node.deliver(&reported, mark, &forged)), Some(133));
            // A router outside is on no way between two endpoints of the node.
            let router: IpAddr =
                if src.is_ipv4() { "198.51.100.1" } else { "2001:db8:1::1" }.parse().unwrap();
            let outside = unreachable(router, reported.ip(src), about);
            assert_eq!(node.drop_of(|node| node.deliver(&reported, 0, &outside)), Some(133));
            // The node itself is, with whatever address.
            assert_eq!(node.drop_of(|node| node.tell(&reported, &outside)), None);
        }
    }
}

#[test]
fn an_endpoint_complains_only_of_what_it_was_sent() {
    let (mut node, a, b) = pair();
    for (src, dst, far) in [(a.v4(), b.v4(), "198.51.100.7"), (a.v6(), b.v6(), "2001:db8:7::7")] {
        let far: IpAddr = far.parse().unwrap();
        assert_eq!(node.drop_of(|node| node.send(&a, &udp(src, far, 1000, 80))), None);
        // What a sent to somebody else, told by b to a, and by b as that one.
        for teller in [dst, far] {
            let error = unreachable(teller, src, &udp(src, far, 1000, 80));
            let reason = if teller == dst { 133 } else { 132 };
            assert_eq!(node.drop_of(|node| node.send(&b, &error)), Some(reason));
        }
    }
}

/// Behind the overlay nobody but nodes is on the way.
#[test]
fn of_a_way_through_the_overlay_only_nodes_tell() {
    let (mut node, a, _) = pair();
    for (far, other, outside) in
        [("10.2.0.7", "192.0.2.77", "198.51.100.1"), ("f00d:2::7", "2001:db8::77", "2001:db8:1::1")]
    {
        let [far, other, outside]: [IpAddr; 3] =
            [far, other, outside].map(|it| it.parse().unwrap());
        let sent = udp(a.ip(far), far, 1000, 80);
        node.send(&a, &sent);
        node.ipcache(other, if far.is_ipv4() { 32 } else { 128 }, 6);
        let reported = |node: &mut Node, by: IpAddr| {
            let error = unreachable(by, a.ip(far), &sent);
            node.drop_of(|node| node.deliver(&a, 0, &error))
        };
        let reached = [(IpcacheFlags::HAS_TUNNEL_ENDPOINT, Some(133)), (0, None)];
        for (flags, verdict) in reached {
            node.ipcache_row(far, IpcacheRow { identity: 777, flags, ..IpcacheRow::default() });
            assert_eq!(reported(&mut node, far), None, "it has heard it");
            assert_eq!(reported(&mut node, other), None, "a node");
            assert_eq!(reported(&mut node, outside), verdict, "{flags}");
        }
    }
}

#[test]
fn an_error_may_also_have_a_rule() {
    let (mut node, a, b) = pair();
    let far: IpAddr = "192.0.2.1".parse().unwrap();
    let error = unreachable(far, b.v4(), &udp(b.v4(), far, 1, 2));
    node.rules(&b, &[allow(PolicyKey::ports(Direction::Ingress, 9, ICMP, 3, 16))]);
    assert_eq!(node.drop_of(|node| node.deliver(&b, 0, &error)), None);
    let cut = &error[..error.len() - 6];
    node.rules(&b, &[]);
    assert_eq!(node.drop_of(|node| node.deliver(&b, 0, cut)), Some(133), "too short to tell");
    let _ = a;
}
