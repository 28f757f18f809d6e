//! IPv6 neighbour discovery: the gateway and the local endpoints are answered for here.

use crate::common::*;
use aya::maps::HashMap;
use std::net::Ipv6Addr;
use volvox_bpf_progs::layouts::*;

const ROUTER: Ipv6Addr = Ipv6Addr::new(0xf00d, 0, 0, 0, 0, 0, 0, 0xffff);

/// The advertisement that answers a solicitation, `flags` as in its fifth byte.
fn advertisement(from: Mac, target: Ipv6Addr, to: (Mac, Ipv6Addr), flags: u8) -> Vec<u8> {
    let mut message = vec![136, 0, 0, 0, flags, 0, 0, 0];
    message.extend(target.octets());
    message.extend([2, 1]);
    message.extend(from);
    let pseudo = [
        &target.octets()[..],
        &to.1.octets(),
        &(message.len() as u32).to_be_bytes(),
        &[0, 0, 0, ICMPV6],
        &message,
    ];
    let sum = checksum(&pseudo.concat());
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    ethernet((from, to.0), 0x86dd, &ipv6(target, to.1, ICMPV6, 255, &message))
}

fn with_router() -> Node {
    let mut node = Node::new();
    node.node(NodeRow { router_ipv6: ROUTER.octets(), ..NodeRow::default() });
    node
}

#[test]
fn the_router_answers_as_one() {
    let mut node = with_router();
    let a = node.endpoint(1);
    let got = node.send(&a, &solicitation(a.mac, a.ipv6, ROUTER));
    assert_eq!(got.action, REDIRECT);
    assert_eq!(got.frame, advertisement(a.node_mac, ROUTER, (a.mac, a.ipv6), 0xe0));
}

#[test]
fn a_solicitation_without_options_is_answered_too() {
    let mut node = with_router();
    let a = node.endpoint(1);
    let mut frame = solicitation(a.mac, a.ipv6, ROUTER);
    frame.truncate(frame.len() - 8);
    frame[18..20].copy_from_slice(&24u16.to_be_bytes());
    let got = node.send(&a, &frame);
    assert_eq!(got.action, REDIRECT);
    assert_eq!(got.frame, advertisement(a.node_mac, ROUTER, (a.mac, a.ipv6), 0xe0));
}

#[test]
fn a_local_endpoint_is_answered_for() {
    let mut node = with_router();
    let (a, b) = (node.endpoint(1), node.endpoint(2));
    let got = node.send(&a, &solicitation(a.mac, a.ipv6, b.ipv6));
    assert_eq!(got.action, REDIRECT);
    assert_eq!(got.frame, advertisement(a.node_mac, b.ipv6, (a.mac, a.ipv6), 0x60));
}

#[test]
fn the_stand_in_for_the_endpoint_itself_is_on_the_hosts_side() {
    let mut node = with_router();
    let a = node.endpoint(1);
    let stand_in: Ipv6Addr = "fe80::1".parse().unwrap();
    let got = node.send(&a, &solicitation(a.mac, a.ipv6, stand_in));
    assert_eq!(got.action, REDIRECT);
    assert_eq!(got.frame, advertisement(a.node_mac, stand_in, (a.mac, a.ipv6), 0x60));
}

#[test]
fn what_concerns_the_host_is_left_to_it() {
    let mut node = with_router();
    let a = node.endpoint(1);
    let host: Ipv6Addr = "2001:db8::1".parse().unwrap();
    node.map::<HashMap<_, LxcKey, LxcRow>>("cilium_lxc", |mut map| {
        let row = LxcRow { flags: LxcFlags::HOST, ..LxcRow::default() };
        map.insert(LxcKey::new(host.into()), row, 0).unwrap();
    });
    for target in [host, "fe80::2".parse().unwrap()] {
        assert_eq!(node.send(&a, &solicitation(a.mac, a.ipv6, target)).action, OK, "{target}");
    }
    let group = "ff02::1:ff00:1".parse().unwrap();
    let probe = neighbourly(135, Ipv6Addr::UNSPECIFIED, group, a.ipv6);
    let got = node.send(&a, &probe);
    assert_eq!((got.action, got.frame), (OK, probe), "a probe for duplicates finds none");
}

#[test]
fn an_unknown_target_is_a_drop() {
    let mut node = with_router();
    let a = node.endpoint(1);
    let frame = solicitation(a.mac, a.ipv6, "f00d::77".parse().unwrap());
    assert_eq!(node.drop_of(|node| node.send(&a, &frame)), Some(150));
}

#[test]
fn a_routed_solicitation_is_a_drop() {
    let mut node = with_router();
    let a = node.endpoint(1);
    let mut frame = solicitation(a.mac, a.ipv6, ROUTER);
    frame[21] = 254;
    assert_eq!(node.drop_of(|node| node.send(&a, &frame)), Some(134));
}

#[test]
fn an_endpoint_advertises_only_itself() {
    let mut node = with_router();
    let (a, b) = (node.endpoint(1), node.endpoint(2));
    let gateway = (a.node_mac, "fe80::1".parse().unwrap());
    let own = advertisement(a.mac, a.ipv6, gateway, 0x60);
    assert_eq!(node.send(&a, &own).action, OK);
    let stolen = advertisement(a.mac, b.ipv6, gateway, 0x60);
    assert_eq!(node.drop_of(|node| node.send(&a, &stolen)), Some(132));
}

#[test]
fn greetings_of_a_link_pass_but_nothing_else_from_there() {
    let mut node = with_router();
    let a = node.endpoint(1);
    let local: Ipv6Addr = "fe80::2".parse().unwrap();
    let greeting = |src, dst, kind| {
        // A hop-by-hop header that alerts routers stands before a membership report.
        let mut payload = vec![ICMPV6, 0, 5, 2, 0, 0, 1, 0];
        payload.extend(icmp_header(kind, 0, 0));
        ethernet(ANY_MACS, 0x86dd, &ipv6(src, dst, 0, 1, &payload))
    };
    let all_routers: Ipv6Addr = "ff02::16".parse().unwrap();
    for kind in [131, 132, 133, 143] {
        for src in [local, Ipv6Addr::UNSPECIFIED] {
            assert_eq!(
                node.send(&a, &greeting(src, all_routers, kind)).action,
                OK,
                "{kind} from {src}"
            );
        }
        assert_eq!(node.deliver(&a, 0, &greeting(local, all_routers, kind)).action, OK, "{kind}");
        let wide = greeting(local, "ff05::16".parse().unwrap(), kind);
        assert_eq!(node.drop_of(|node| node.send(&a, &wide)), Some(132), "{kind} beyond the link");
    }
    for kind in [130, 134, 137] {
        let forged = greeting(local, all_routers, kind);
        assert_eq!(
            node.drop_of(|node| node.send(&a, &forged)),
            Some(132),
            "{kind} is not an endpoint's to say"
        );
    }
}

#[test]
fn the_hosts_solicitations_need_no_rule_but_routed_ones_do() {
    let mut node = with_router();
    let a = node.endpoint(1);
    let mut frame = solicitation(a.node_mac, "fe80::1".parse().unwrap(), a.ipv6);
    assert_eq!(node.deliver(&a, 0, &frame).action, OK);
    frame[21] = 254;
    assert_eq!(node.drop_of(|node| node.deliver(&a, 0, &frame)), Some(133));
}

/// A message of neighbour discovery, whole but for the checksum, which nobody here looks at.
fn neighbourly(kind: u8, src: Ipv6Addr, dst: Ipv6Addr, target: Ipv6Addr) -> Vec<u8> {
    let mut message = vec![kind, 0, 0, 0, 0, 0, 0, 0];
    message.extend(target.octets());
    ethernet(ANY_MACS, 0x86dd, &ipv6(src, dst, ICMPV6, 255, &message))
}

/// Whatever type, target and source: to others it would go past every policy.
#[test]
fn neighbour_discovery_does_not_leave_the_link() {
    let mut node = with_router();
    let (a, b) = (node.endpoint(1), node.endpoint(2));
    let own_link: Ipv6Addr = "fe80::a".parse().unwrap();
    let host: Ipv6Addr = "2001:db8::1".parse().unwrap();
    node.map::<HashMap<_, LxcKey, LxcRow>>("cilium_lxc", |mut map| {
        let row = LxcRow { flags: LxcFlags::HOST, ..LxcRow::default() };
        map.insert(LxcKey::new(host.into()), row, 0).unwrap();
    });
    let far = [b.ipv6, "2001:db8:7::7".parse().unwrap(), "ff05::1".parse().unwrap()];
    let near = ["fe80::1", "ff02::1", "ff02::1:ff00:1"].map(|it| it.parse::<Ipv6Addr>().unwrap());
    let stays = near.into_iter().chain([ROUTER, host]);
    let targets = [(136, own_link), (136, a.ipv6), (135, own_link), (135, host)];
    for (kind, target) in targets {
        for src in [a.ipv6, own_link] {
            for dst in far {
                let frame = neighbourly(kind, src, dst, target);
                let dropped = node.drop_of(|node| node.send(&a, &frame));
                assert_eq!(dropped, Some(150), "{kind} of {target} from {src} to {dst}");
            }
            for dst in stays.clone() {
                let frame = neighbourly(kind, src, dst, target);
                assert_eq!(node.send(&a, &frame).action, OK, "{kind} from {src} to {dst}");
            }
        }
    }
    for dst in far {
        let probe = neighbourly(135, Ipv6Addr::UNSPECIFIED, dst, a.ipv6);
        assert_eq!(node.drop_of(|node| node.send(&a, &probe)), Some(150), "a probe to {dst}");
    }
}

#[test]
fn a_neighbour_has_no_other_address() {
    let mut node = with_router();
    let (a, b) = (node.endpoint(1), node.endpoint(2));
    let link: Ipv6Addr = "fe80::1".parse().unwrap();
    let forged = [(b.ipv6, 135), (b.ipv6, 136), (ROUTER, 136), (Ipv6Addr::UNSPECIFIED, 136)];
    for (src, kind) in forged {
        for target in [a.ipv6, ROUTER] {
            let frame = neighbourly(kind, src, link, target);
            let dropped = node.drop_of(|node| node.send(&a, &frame));
            assert_eq!(dropped, Some(132), "{kind} of {target} from {src}");
        }
    }
}

#[test]
fn neighbour_discovery_has_no_extension_headers() {
    let mut node = with_router();
    let a = node.endpoint(1);
    let dst: Ipv6Addr = "ff02::1".parse().unwrap();
    for (first, header) in [(0, [ICMPV6, 0, 1, 4, 0, 0, 0, 0]), (44, [ICMPV6, 0, 0, 1, 0, 0, 0, 9])]
    {
        for kind in [135, 136] {
            let mut payload = header.to_vec();
            payload.extend(&neighbourly(kind, a.ipv6, dst, a.ipv6)[54..]);
            let frame = ethernet(ANY_MACS, 0x86dd, &ipv6(a.ipv6, dst, first, 255, &payload));
            assert_eq!(node.drop_of(|node| node.send(&a, &frame)), Some(134), "{kind} {first}");
        }
    }
}
